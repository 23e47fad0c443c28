"""Errors that end a run, shown as one paragraph and without a traceback."""

from __future__ import annotations


class JobError(RuntimeError):
    """The run cannot go on; the text says what, where and what to look at next."""


class HungError(JobError):
    """Something lives but does not move on; the text says what was last seen of it."""


class RunRefusedError(ValueError):
    """The run cannot begin: not a run directory, already finished, or held by another driver."""
