"""Folders of a configuration, as Slurm, the nodes and the container runtimes will read them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.schema import LaunchConfig
from launcher.yaml_words import env_layers

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def cache_folder(config: LaunchConfig) -> Iterator[str]:
    """cluster.cache_dir is a place on the nodes, whatever the folder a step starts in."""
    path = config.cluster.cache_dir
    if not path.startswith("/"):
        yield f"cluster.cache_dir={path!r}: allowed: an absolute path on the nodes, as in /tmp"


def log_paths(config: LaunchConfig) -> Iterator[str]:
    """Slurm replaces % in --output by job facts, and \\ switches that off: the log would be lost.

    The folder that then is meant does not exist, and Slurm makes none (sbatch(1), filename
    pattern).
    """
    path = config.cluster.results_dir
    if config.cluster.executor == "slurm" and ("%" in path or "\\" in path):
        yield (
            f"cluster.results_dir={path!r}: Slurm reads % and \\ in the path of a job's log as "
            "patterns, so that the job would have none; use a folder without them"
        )


def mounted_paths(config: LaunchConfig) -> Iterator[str]:
    """Mounts are written as `source:target[:flags]` and separated by commas."""
    kind = config.cluster.container.kind
    if kind == "none":
        return
    paths = {"model.path": config.model.path, "cluster.results_dir": config.cluster.results_dir}
    for key, path in paths.items():
        if "," in path or ":" in path:
            yield (
                f"{key}={path!r}: it is mounted into the container, and {kind} reads : and , as "
                "separators of mounts; use a folder without them"
            )


def env_names(config: LaunchConfig) -> Iterator[str]:
    """Variables are handed over by env(1), which takes a leading dash for an option of its own."""
    for where, env in env_layers(config).items():
        for name in env:
            if not ENV_NAME.fullmatch(name):
                yield (
                    f"{where}.{name}: no variable's name; allowed: letters, digits and _, not "
                    "beginning with a digit"
                )
