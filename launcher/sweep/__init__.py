"""python -m launcher -m ...: many combinations from one line, one job for each deployment."""
