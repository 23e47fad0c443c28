"""The login node's half: configs to a plan, a plan to text, text to a job."""

__version__ = "0.1.0"
