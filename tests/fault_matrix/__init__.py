"""Every fault a run must survive, as rows that strike a real run and measure what follows.

`python -m tests.fault_matrix` runs rows and writes docs/fault-matrix.md; the quick ones also run
as ordinary tests (tests/test_fault_matrix.py).
"""
