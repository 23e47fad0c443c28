"""The run directory as this node sees it, room on disks, files and programs of the plan."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.cache_folder import claim, claim_kept, remove_stale
from jobs.preflight.finding import Found, failed, passed, reason
from jobs.process_tree import living_marks
from jobs.stage.copying import check_room
from jobs.stage.shelf import (
    StageError,
    claim_models,
    is_of,
    manifest_of,
    models_folder,
    source_files,
)

GB = 1e9
PATIENCE_S = 1.5
"""How long a file that the driver wrote a moment ago may take to show here."""


def storage_checks(spec: dict[str, Any]) -> Iterator[Found]:
    """Shared directory, disks, paths, executables."""
    yield shared_check(spec)
    yield from _room(spec)
    if spec["stage"]:
        yield _room_to_stage(spec["stage"])
    missing = [path for path in spec["paths"] if not Path(path).exists()]
    if missing:
        yield failed("paths", f"{', '.join(missing)} not there", "there: on a shared file system")
    else:
        yield passed("paths", f"{len(spec['paths'])} there")
    lacking = [program for program in spec["executables"] if not can_run(program)]
    if lacking:
        yield failed("programs", f"{', '.join(lacking)} not to be run", "executable here")
    else:
        yield passed("programs", f"{len(spec['executables'])} to be run")


def can_run(program: str) -> bool:
    """Whether a path, or a name on PATH, can be executed here."""
    folders = [""] if "/" in program else os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = [Path(folder, program) for folder in folders]
    return any(path.is_file() and os.access(path, os.X_OK) for path in paths)


def shared_check(spec: dict[str, Any]) -> Found:
    """The driver's file is read here, and a file of this node's own is left for the driver.

    A node-local folder under the same path, or a stale mount, has another content or none.
    """
    folder = Path(spec["run_dir"], "preflight")
    wanted = f"the driver's own {folder.parent}, writable"
    token = folder / spec["token_file"]
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            said = token.read_text(encoding="utf-8")
            break
        except FileNotFoundError:
            if time.monotonic() > until:
                what = "another folder (node-local?)" if folder.parent.is_dir() else "no folder"
                return failed("shared directory", f"{what} under that path", wanted)
            time.sleep(0.1)
        except OSError as error:
            return failed("shared directory", f"{token.name}: {reason(error)}", wanted)
    if said != spec["token"]:
        return failed("shared directory", "the driver's file has another content here", wanted)
    try:
        _leave(folder / spec["own_file"], spec["token"])
    except OSError as error:
        return failed("shared directory", f"not writable: {reason(error)}", wanted)
    return passed("shared directory", "the driver's")


def _leave(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _room(spec: dict[str, Any]) -> Iterator[Found]:
    """Free space of the run directory and of the node-local cache, which must be writable."""
    least = spec["min_free_disk_gb"]
    folders = {"run directory's disk": spec["run_dir"], "cache": spec["cache_dir"]}
    for check, folder in folders.items():
        if not folder:
            continue
        try:
            disk = os.statvfs(_existing(folder))
            free = round(disk.f_bavail * disk.f_frsize / GB, 1)
        except OSError as error:
            yield failed(check, f"{folder}: {reason(error)}", "a folder")
            continue
        if check == "cache" and not os.access(_existing(folder), os.W_OK | os.X_OK):
            yield failed(check, f"{folder}: not writable", "writable: compile caches go there")
        elif check == "cache" and (problem := _claim(folder, spec)):
            yield failed(check, problem, "a folder of this user's own, 0700")
        elif free < least:
            yield failed(check, f"{folder}: {free} GB free", f"{least} GB")
        else:
            yield passed(check, f"{free} GB free", f"{least} GB")


def _room_to_stage(stage: dict[str, Any]) -> Found:
    """Whether the model is staged here already, or fits; what is wrong with it is told later."""
    folder = models_folder(stage["dir"]) / stage["name"]
    try:
        claim_models(stage["dir"])
        files = source_files(Path(stage["source"]))
        manifest = manifest_of(folder)
        if manifest is not None and is_of(manifest, files):
            return passed("staged model", "there already")
        short = check_room(folder.parent, files, stage["min_free_disk_gb"])
    except StageError as error:
        return failed("staged model", error, "a model that can be copied here")
    if short:
        return failed("staged model", short, "room for the model")
    return passed("staged model", "room for it")


def _claim(folder: str, spec: dict[str, Any]) -> str | None:
    """The run's cache folder made, old ones removed; what is wrong with it."""
    try:
        claim(folder, spec["run_id"])
        remove_stale(folder, [spec["mark"], *living_marks()])
        if spec["kept_caches"]:
            claim_kept(folder, spec["kept_caches"])
    except OSError as error:
        return str(error)
    return None


def _existing(folder: str) -> Path:
    """The folder, or the nearest one above it that is there."""
    path = Path(folder)
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
