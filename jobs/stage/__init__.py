"""The model copied to a node's own disk: what runs on the node, with nothing but Python.

`python -m jobs.stage` copies, verifies and reports; the driver's side is jobs/staging.py. The
preflight looks here for what is staged already and for room.
"""
