"""Whether what runs is what was submitted: run.json and the copied code against their hashes."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from jobs.errors import RunRefusedError
from jobs.record_files import read_object
from jobs.run_spec import Snapshot
from jobs.store import RunDir

PACKAGES = ("analysis", "jobs", "launcher")
HASHED = ("config", "engine", "labels", "plan")


def check_snapshot(run_dir: RunDir, snapshot: Snapshot | None, expected: str | None) -> None:
    """RunRefusedError when code, configuration or plan changed since the submission.

    `expected` is the hash in the batch script, which Slurm keeps; None when started by hand.
    """
    if snapshot is None:
        if expected is not None:
            raise RunRefusedError(_changed(run_dir, "run.json has lost its snapshot"))
        return
    if expected not in (None, snapshot.sha256):
        raise RunRefusedError(
            _changed(run_dir, f"run.json says {snapshot.sha256:.12}, the job {expected:.12}")
        )
    code = code_hash(Path(snapshot.code_dir))
    if code != snapshot.code_sha256:
        raise RunRefusedError(
            _changed(
                run_dir,
                f"the code in {snapshot.code_dir} is {code:.12}, "
                f"{snapshot.code_sha256:.12} was submitted",
            )
        )
    if whole_hash(read_object(run_dir.run_json), code) != snapshot.sha256:
        raise RunRefusedError(_changed(run_dir, "run.json's configuration or plan was edited"))


def code_hash(code_dir: Path) -> str:
    """SHA-256 over the packages' files with their names."""
    total = hashlib.sha256()
    for path in _sources(code_dir):
        total.update(str(path.relative_to(code_dir)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def whole_hash(data: dict[str, Any], code_sha256: str) -> str:
    """SHA-256 over code, configuration and plan, as the launcher has written it."""
    parts = {key: data.get(key) for key in HASHED}
    text = json.dumps([code_sha256, parts], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _sources(code_dir: Path) -> list[Path]:
    found = []
    for package in PACKAGES:
        for folder, names, files in os.walk(code_dir / package):
            names[:] = [name for name in names if name != "__pycache__"]
            found += [Path(folder, name) for name in files if not name.endswith(".pyc")]
    return sorted(found)


def _changed(run_dir: RunDir, what: str) -> str:
    return (
        f"{run_dir.path}: the snapshot of this run was changed after its submission: {what}; "
        "what is submitted is what runs: launch it anew"
    )
