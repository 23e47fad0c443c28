"""A network namespace for each node, on one bridge: own address, own ports, own loopback."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.install import tool_path
from tests.cluster.processes import Started, all_pids, observe
from tests.cluster.spec import HOST_ADDRESS, ClusterSpec

BRIDGE = "nv72br0"
NAMESPACE = "nv72-"
VETH = "nv72v"
NAMED = Path("/run/netns")


def create(spec: ClusterSpec) -> None:
    """The bridge, and for each node a namespace joined to it by a veth pair."""
    _ip(f"link add {BRIDGE} type bridge", f"addr add {HOST_ADDRESS}/24 dev {BRIDGE}",
        f"link set {BRIDGE} up")  # fmt: skip
    _ip(*(f"netns add {NAMESPACE}{name}" for name in spec.node_names))
    for name in spec.node_names:
        _ip(f"link add {veth(name)} type veth peer name eth0 netns {NAMESPACE}{name}",
            f"link set {veth(name)} master {BRIDGE} up")  # fmt: skip
        _ip(f"addr add {spec.address(name)}/24 dev eth0", "link set eth0 up", "link set lo up",
            f"route add default via {HOST_ADDRESS}", inside=name)  # fmt: skip


def remove() -> None:
    """Every namespace, veth and bridge of any test cluster on this machine."""
    links = [p.name for p in Path("/sys/class/net").iterdir() if p.name.startswith(VETH)]
    bridge = [BRIDGE] if Path(f"/sys/class/net/{BRIDGE}").exists() else []
    _ip(*(f"link del {link}" for link in [*links, *bridge]))
    _ip(*(f"netns del {NAMESPACE}{name}" for name in namespaces()))


def namespaces() -> list[str]:
    """Node names that have a namespace now."""
    if not NAMED.is_dir():
        return []
    return [p.name.removeprefix(NAMESPACE) for p in NAMED.glob(f"{NAMESPACE}node*")]


def processes_inside(names: Sequence[str]) -> Iterator[Started]:
    """Every process that lives in these nodes' namespaces, whoever started it."""
    ours = {_inode(NAMED / f"{NAMESPACE}{name}"): name for name in names}
    ours.pop(None, None)
    for pid in all_pids():
        name = ours.get(_inode(Path(f"/proc/{pid}/ns/net")))
        found = observe(f"process on {name}", pid) if name else None
        if found is not None:
            yield found


def set_plugged(name: str, *, plugged: bool) -> None:
    """Join or cut one node's cable."""
    _ip(f"link set {veth(name)} {'up' if plugged else 'down'}")


def veth(name: str) -> str:
    """The host's end of the node's cable."""
    return f"{VETH}{name.removeprefix('node')}"


def named(directory: Path, argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` on the host with the nodes' name files.

    slurmctld looks up the name of every peer's address; where only a DNS server could answer, one
    lost query holds all its connections for 5 s.
    """
    script = (
        'mount --bind "$1/hosts" /etc/hosts && '
        'mount --bind "$1/resolv.conf" /etc/resolv.conf && shift && exec "$@"'
    )
    unshare = str(tool_path("unshare"))
    return [unshare, "--mount", "/bin/sh", "-c", script, "sh", str(directory), *argv]


def inside(name: str, directory: Path, argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` on a node: its network, its hostname, its name files.

    Not `ip netns exec`: that one mounts a new /sys and hides the cgroups. Every step is an exec,
    so the pid stays that of the caller's child.
    """
    script = (
        'hostname "$1" && mount --bind "$2/hosts" /etc/hosts && '
        'mount --bind "$2/resolv.conf" /etc/resolv.conf && shift 2 && exec "$@"'
    )
    return [
        str(tool_path("nsenter")), f"--net={NAMED}/{NAMESPACE}{name}",
        str(tool_path("unshare")), "--uts", "--mount",
        "/bin/sh", "-c", script, "sh", name, str(directory), *argv,
    ]  # fmt: skip


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _ip(*commands: str, inside: str | None = None) -> None:
    if not commands:
        return
    where = ["-n", f"{NAMESPACE}{inside}"] if inside else []
    argv = [str(tool_path("ip")), *where, "-batch", "-"]
    done = subprocess.run(
        argv, input="\n".join(commands) + "\n", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(argv)}: {done.stderr.strip()}; commands: {commands}")
