"""What is submitted is what runs: the code copied at submission, and one hash over all of it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.errors import SubmissionError
from launcher.steps import Surroundings

FOLDER = "code"
PACKAGES = ("analysis", "jobs", "launcher")
SKIPPED = ("__pycache__",)
HASHED = ("config", "engine", "labels", "plan")
"""Parts of run.json that decide what runs and what the table says of it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of the packages, made once per submission; a sweep's jobs share one."""

    code_dir: Path
    code_sha256: str


def take(checkout: Path, home: Path) -> Snapshot:
    """The packages of `checkout` copied into `home`/code, hashed as they were read."""
    total = hashlib.sha256()
    target = home / FOLDER
    try:
        for folder, names in itertools.groupby(sources(checkout), os.path.dirname):
            (target / folder).mkdir(parents=True, exist_ok=True)
            for name in names:
                content = (checkout / name).read_bytes()
                total.update(name.encode() + b"\0" + content)
                (target / name).write_bytes(content)
    except OSError as error:
        raise SubmissionError(
            f"{target}: the launcher's code cannot be copied: {error.strerror}; "
            "cluster.results_dir must have room for it (about 2 MB)"
        ) from error
    return Snapshot(target, total.hexdigest())


def sources(checkout: Path) -> list[str]:
    """Names of every file of the packages, in jobs/snapshot.py's order: part by part."""
    found = []
    for package in PACKAGES:
        for folder, names, files in os.walk(checkout / package):
            names[:] = [name for name in names if name not in SKIPPED]
            inside = os.path.relpath(folder, checkout)
            found += [f"{inside}/{name}" for name in files if not name.endswith(".pyc")]
    return sorted(found, key=lambda name: name.split("/"))


def running_from(snapshot: Snapshot, around: Surroundings) -> Surroundings:
    """The surroundings in which the job's programs are those of the snapshot."""
    code_dir = str(snapshot.code_dir)
    return replace(around, code_dir=code_dir, env={**around.env, "PYTHONPATH": code_dir})


def sealed(document: dict[str, Any], snapshot: Snapshot | None) -> dict[str, Any]:
    """run.json with its snapshot: the code's hash, and one over code, configuration and plan.

    jobs/snapshot.py works the same out again before the run begins.
    """
    if snapshot is None:
        return document
    code = {"code_dir": str(snapshot.code_dir), "code_sha256": snapshot.code_sha256}
    parts = json.loads(json.dumps({key: document[key] for key in HASHED}))
    text = json.dumps([snapshot.code_sha256, parts], sort_keys=True, separators=(",", ":"))
    return document | {"snapshot": {**code, "sha256": hashlib.sha256(text.encode()).hexdigest()}}
