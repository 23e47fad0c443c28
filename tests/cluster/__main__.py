"""Command line of the test cluster: python -m tests.cluster install | up | down | status | ..."""

import argparse
import logging
import shlex
import sys
from pathlib import Path

from tests.cluster import Cluster, ClusterError, ClusterSpec
from tests.cluster.install import default_prefix, install

DIRECTORY = ClusterSpec.__dataclass_fields__["directory"].default
NODE_VERBS = {
    "crash-node": "power loss: SIGKILL everything on one node",
    "start-node": "power on: start the node's slurmd again",
    "drain": "no new jobs on one node",
    "resume": "give a drained or crashed node back",
    "unplug": "pull one node's network cable",
    "plug": "put it back",
}


def main() -> int:
    """Do one verb; 1 and a message on stderr when it does not work."""
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    args = _parser().parse_args()
    try:
        _act(args)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _act(args: argparse.Namespace) -> None:
    if args.verb == "install":
        install(args.prefix)
    elif args.verb == "up":
        _up(args)
    elif args.verb == "down":
        shape = args.dir / "cluster.json"
        (Cluster.at(args.dir) if shape.is_file() else Cluster(_spec(args.dir))).down()
    elif args.verb == "status":
        _status(Cluster.at(args.dir))
    else:
        _disturb(Cluster.at(args.dir), args.verb, args.node)


def _spec(directory: Path) -> ClusterSpec:
    return ClusterSpec(directory=directory)


def _up(args: argparse.Namespace) -> None:
    spec = ClusterSpec(
        directory=args.dir.absolute(), prefix=args.prefix.absolute(), racks=args.racks,
        rack_nodes=args.rack_nodes, gpus=args.gpus, cpus=args.cpus, accounting=args.accounting,
        **({} if args.namespaces else {"namespaces": False}),
    )  # fmt: skip
    cluster = Cluster(spec)
    cluster.up()
    for name, value in cluster.exports().items():
        print(f"export {name}={shlex.quote(value)}")  # noqa: T201


def _status(cluster: Cluster) -> None:
    if not cluster.daemons():
        print(f"down: {cluster.spec.directory}")  # noqa: T201
    latest = {process.name: process for process in cluster.daemons()}
    for name, process in latest.items():
        print(f"{name:16} pid {process.pid:<8} {'alive' if process.is_alive() else 'gone'}")  # noqa: T201


def _disturb(cluster: Cluster, verb: str, node: str) -> None:
    if verb in ("plug", "unplug"):
        cluster.set_plugged(node, plugged=verb == "plug")
    else:
        {
            "crash-node": cluster.crash_node,
            "start-node": cluster.start_node,
            "drain": cluster.drain,
            "resume": cluster.resume,
        }[verb](node)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("install", help="Slurm 24.11 in a private prefix; instant when there")
    verb.add_argument("--prefix", type=Path, default=default_prefix())
    up = verbs.add_parser("up", help="start a cluster; eval what it prints")
    up.add_argument("--prefix", type=Path, default=default_prefix())
    up.add_argument("--racks", type=int, default=2)
    up.add_argument("--rack-nodes", type=int, default=18)
    up.add_argument("--gpus", type=int, default=4, help="GPUs a node")
    up.add_argument("--cpus", type=int, default=144, help="CPUs a node declares")
    up.add_argument("--no-accounting", dest="accounting", action="store_false")
    up.add_argument("--no-namespaces", dest="namespaces", action="store_false")
    others = [verbs.add_parser("down", help="stop it"), verbs.add_parser("status", help="daemons")]
    for name, text in NODE_VERBS.items():
        node = verbs.add_parser(name, help=text)
        node.add_argument("node")
        others.append(node)
    for each in (up, *others):
        each.add_argument("--dir", type=Path, default=DIRECTORY)
    return parser


if __name__ == "__main__":
    sys.exit(main())
