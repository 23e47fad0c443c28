"""Where staged models lie on a node, and what says that one of them is whole.

`<dir>/launcher-<uid>-models/<name>/` holds the files. Beside it lie `<name>.json` (the manifest,
written when every file was verified; a folder without one is no copy), `<name>.lock` (one run
copies at a time; the lock goes with the process that holds it) and `<name>.used` (run ids).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.cache_folder import CacheFolderError, check

SCHEMA = 1
REMEMBERED = 20
"""Runs whose use of a staged model is remembered."""


class StageError(Exception):
    """A model that cannot be staged here; the text says what, where, how much, what to do."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the model as the shared file system has it."""

    name: str
    """Path below the model's folder."""
    size: int
    """Bytes."""
    changed_ns: int
    """Time of its last change, ns since 1970."""


def models_folder(base: str) -> Path:
    """Where this user's staged models lie below `base`."""
    return Path(base) / f"launcher-{os.getuid()}-models"


def claim_models(base: str) -> Path:
    """That folder, made if need be with 0700; StageError when it is not this user's alone."""
    folder = models_folder(base)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check(folder)
    except CacheFolderError as error:
        text = str(error).replace("cluster.cache_dir", "cluster.stage.dir")
        raise StageError(text) from error
    except OSError as error:
        raise StageError(
            f"{folder} cannot be made: {error.strerror}; set cluster.stage.dir to a node-local "
            "folder that you may write"
        ) from error
    return folder


def source_files(source: Path) -> list[SourceFile]:
    """Every visible file of the model; links to files are followed (a hub's cache has them)."""
    found: list[SourceFile] = []
    seen: set[str] = set()
    try:
        for folder, names, files in os.walk(source, onerror=_raise, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:
                raise StageError(f"model.path={source}: {folder} leads to {real} once more")
            seen.add(real)
            names[:] = sorted(name for name in names if not name.startswith("."))
            for name in sorted(name for name in files if not name.startswith(".")):
                path = Path(folder, name)
                told = path.stat()
                inside = str(path.relative_to(source))
                found.append(SourceFile(inside, told.st_size, told.st_mtime_ns))
    except OSError as error:
        raise StageError(f"model.path={source}: {error.filename}: {error.strerror}") from error
    if not found:
        raise StageError(f"model.path={source}: there is no file in it to be staged")
    return found


def _raise(error: OSError) -> None:
    raise error


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """What was verified when the model was staged; None where no whole copy was ever made."""
    path = folder.with_name(f"{folder.name}.json")
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(read, dict) and read.get("schema") == SCHEMA and folder.is_dir()
    return read if whole and isinstance(read.get("files"), dict) else None


def is_of(manifest: dict[str, Any], files: Sequence[SourceFile]) -> bool:
    """Whether the copy was made of these very files: names, sizes and times of change."""
    wanted = {file.name: [file.size, file.changed_ns] for file in files}
    had = {name: [told.get("size"), told.get("changed_ns")] for name, told in _entries(manifest)}
    return wanted == had


def _entries(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from ((name, told) for name, told in manifest["files"].items() if isinstance(told, dict))


def faults(folder: Path, manifest: dict[str, Any]) -> Iterator[str]:
    """What is no longer as it was when the copy was verified: sizes, by one look at each file."""
    for name, told in _entries(manifest):
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            yield f"{name} is gone"
        elif size != told["size"]:
            yield f"{name} has {size:,} bytes instead of {told['size']:,}"


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """On the disk before it gets its name."""
    path = folder.with_name(f"{folder.name}.json")
    aside = path.with_name(f".{path.name}.tmp")
    with aside.open("w", encoding="utf-8") as stream:
        json.dump({"schema": SCHEMA, **manifest}, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)


def note_use(folder: Path, run_id: str) -> None:
    """That a run serves from this copy: by this it is not removed under it."""
    path = folder.with_name(f"{folder.name}.used")
    before = path.read_text(encoding="utf-8").split() if path.is_file() else []
    kept = [*(run for run in before if run != run_id), run_id][-REMEMBERED:]
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")


def drop(folder: Path) -> None:
    """A copy and what belongs to it removed, the manifest first: half a copy is never believed."""
    folder.with_name(f"{folder.name}.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_name(f"{folder.name}.used").unlink(missing_ok=True)


def make_way(shelf: Path, own: str, keep: int, living: Sequence[str]) -> list[str]:
    """Removes this user's other models, longest unused first, until `keep` with the new one remain.

    Never one that a living run (by its mark) has said to use. Returns the names removed.
    """
    used = [path for path in shelf.glob("*.used") if path.stem != own]
    used.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    gone = []
    for path in used[max(0, keep - 1) :]:
        runs = path.read_text(encoding="utf-8").split()
        if not any(mark.startswith(run) for mark in living for run in runs):
            drop(shelf / path.stem)
            gone.append(path.stem)
    return gone
