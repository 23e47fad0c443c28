"""Fixtures shared by all tests."""

from __future__ import annotations

from tests.cluster.fixture import slurm_cluster

__all__ = ["slurm_cluster"]
