"""What a test cluster looks like: its shape, its names and addresses, its files."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.install import default_prefix

MAX_DIR_CHARS = 60
"""Unix sockets live below the directory, and their paths are limited to 107 characters."""
SUBNET = "10.231.0"
HOST_ADDRESS = f"{SUBNET}.254"
MAX_NODES = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The shape of the cluster. `memory_mb` and `cpus` are declared, not there."""

    directory: Path = Path("/tmp/nvl72-test-slurm")
    prefix: Path = field(default_factory=default_prefix)
    racks: int = 2
    rack_nodes: int = 18
    gpus: int = 4
    cpus: int = 144
    memory_mb: int = 900_000
    accounting: bool = True
    namespaces: bool = field(default_factory=lambda: os.geteuid() == 0)
    port: int = 26817

    def __post_init__(self) -> None:
        if len(str(self.directory)) > MAX_DIR_CHARS:
            raise ClusterError(
                f"directory {self.directory} has {len(str(self.directory))} characters; at most "
                f"{MAX_DIR_CHARS}, because unix sockets live in it: choose one under /tmp"
            )
        if not 0 < self.nodes <= MAX_NODES:
            raise ClusterError(f"{self.racks} racks x {self.rack_nodes} nodes: at most {MAX_NODES}")
        if self.namespaces and os.geteuid() != 0:
            raise ClusterError("network namespaces need root; give --no-namespaces")

    @property
    def nodes(self) -> int:
        """Nodes in all racks."""
        return self.racks * self.rack_nodes

    @property
    def node_names(self) -> list[str]:
        """node1, node2, ... in rack order."""
        return [f"node{index}" for index in range(1, self.nodes + 1)]

    @property
    def slurm_conf(self) -> Path:
        """The file that SLURM_CONF names."""
        return self.directory / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """The cluster's own munge socket."""
        return self.directory / "munge.sock"

    @property
    def dbd_port(self) -> int:
        """Where slurmdbd listens."""
        return self.port + 2

    def check_node(self, name: str) -> None:
        """Raise when `name` is not a node of this cluster."""
        if name not in self.node_names:
            raise ClusterError(f"no node {name!r}: this cluster has node1 to node{self.nodes}")

    def address(self, name: str) -> str:
        """The node's own IP address, or the loopback when nodes share the machine's network."""
        return f"{SUBNET}.{name.removeprefix('node')}" if self.namespaces else "127.0.0.1"
