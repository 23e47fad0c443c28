"""A real Slurm 24.11 cluster of two NVL72 racks on one machine, for tests and to try by hand.

`python -m tests.cluster install`, then `up`; from Python: `Cluster().up()`, `.env()`, `.down()`.
"""

from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.spec import ClusterSpec

__all__ = ["Cluster", "ClusterError", "ClusterSpec"]
