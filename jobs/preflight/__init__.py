"""What one node has and lacks, looked at on that node: `python -m jobs.preflight SPEC`.

Standard library only and quick to import, so that any Python of a node or of an image can run it.
docs/preflight.md lists the checks.
"""
