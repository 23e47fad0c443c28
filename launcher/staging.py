"""Where the workers read the model from, and which caches outlive a run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from typing import Any

from launcher.schema import LaunchConfig

HASH_LENGTH = 12


def stage_name(config: LaunchConfig) -> str:
    """Folder of the staged model: its own name, and a hash of where it comes from."""
    path = config.model.path.rstrip("/")
    legal = re.sub(r"[^A-Za-z0-9._-]", "-", path.rsplit("/", 1)[-1]).lstrip(".-")[:80]
    return f"{legal or 'model'}-{_short_hash(path)}"


def served_path(config: LaunchConfig) -> str:
    """The folder that the workers are given: model.path, or the copy on their own node."""
    return config.model.path if config.cluster.stage.dir is None else _staged(config)


def _staged(config: LaunchConfig) -> str:
    return f"{{stage}}/{stage_name(config)}"


def stage_document(config: LaunchConfig) -> dict[str, Any] | None:
    """What the job copies to every node; None when nothing is staged."""
    stage = config.cluster.stage
    if stage.dir is None:
        return None
    return {
        "source": config.model.path,
        "name": stage_name(config),
        **dataclasses.asdict(stage),
        "min_free_disk_gb": config.cluster.min_free_disk_gb,
    }


def staged_mounts(config: LaunchConfig) -> tuple[str, ...]:
    """The staged model at its own path in the workers' containers."""
    contained = config.cluster.container.kind != "none" and config.cluster.stage.dir is not None
    return (f"{_staged(config)}:{_staged(config)}",) if contained else ()


def caches_name(config: LaunchConfig) -> str | None:
    """Folder of the caches that are kept for this image, model and flags; None: none are kept."""
    if not config.cluster.keep_caches:
        return None
    engine, model = config.engine, config.model
    image = config.cluster.container.image or engine.env_dir
    flags = [engine.flags, model.flags, dataclasses.asdict(config.flags)]
    env = [config.cluster.env, engine.env, model.env]
    shapes = dataclasses.asdict(config.topology)
    return _short_hash(
        json.dumps([image, engine.release, model.path, flags, env, shapes], sort_keys=True)
    )


def cache_home(config: LaunchConfig) -> str:
    """Folder of the workers' caches: the run's own, or the one that is kept."""
    name = caches_name(config)
    return f"{{kept}}/{name}" if name else "{cache}"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
