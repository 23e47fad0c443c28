"""Stages one model on the node it runs on; SPEC is base64 of a JSON object.

Standard output carries the progress and, last, one report: {"state": copied | reused | failed}.
The same answer comes by a line, so that nothing depends on the run directory.
"""

from __future__ import annotations

import binascii
import fcntl
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobs.process_tree import living_marks
from jobs.stage.copying import Copied, check_room, copy_all, sha256_of
from jobs.stage.shelf import (
    SourceFile,
    StageError,
    claim_models,
    drop,
    faults,
    is_of,
    make_way,
    manifest_of,
    note_use,
    source_files,
    write_manifest,
)

REPORT = "STAGE-REPORT "
PROGRESS = "STAGE-PROGRESS "
EVERY_S = 1.0


def main(arguments: list[str]) -> int:
    """Prints progress and one report; 0 even when it failed, since the report says it."""
    spec = json.loads(binascii.a2b_base64(arguments[0]))
    began = time.monotonic()
    try:
        report = stage(spec)
    except StageError as error:
        report = {"state": "failed", "why": str(error)}
    except OSError as error:
        report = {"state": "failed", "why": f"{error.filename}: {error.strerror}"}
    report |= {"node": spec["node"], "took_s": round(time.monotonic() - began, 3)}
    _say(REPORT, report)
    return 0


def stage(spec: dict[str, Any]) -> dict[str, Any]:
    """The model on this disk, whole: one that is there is reused, else it is copied."""
    source, shelf = Path(spec["source"]), claim_models(spec["dir"])
    folder = shelf / spec["name"]
    files = source_files(source)
    told = {"folder": str(folder), "files": len(files), "bytes": sum(f.size for f in files)}
    with _alone(folder):
        if _is_there(folder, files, spec["verify"] == "content"):
            note_use(folder, spec["run_id"])
            return {"state": "reused", **told}
        drop(folder)
        gone = make_way(shelf, folder.name, spec["keep"], list(living_marks()))
        if short := check_room(shelf, files, spec["min_free_disk_gb"]):
            raise StageError(short)
        _copy(source, folder, files, spec)
        note_use(folder, spec["run_id"])
        return {"state": "copied", "removed": gone, **told}


def _is_there(folder: Path, files: list[SourceFile], content: bool) -> bool:
    """Whether a whole copy of these files is there; StageError for one that was changed since."""
    manifest = manifest_of(folder)
    if manifest is None or not is_of(manifest, files):
        return False
    found = list(faults(folder, manifest))
    if content and not found:
        for name, told in manifest["files"].items():
            if told["sha256"] is None:
                return False
            if sha256_of(folder / name) != told["sha256"]:
                found.append(f"{name} has another content")
    if found:
        raise StageError(
            f"{folder} was whole when it was staged, and is not any more: {'; '.join(found[:5])}; "
            f"find out what changed it, then rm -r {folder} {folder}.json"
        )
    return True


def _copy(source: Path, folder: Path, files: list[SourceFile], spec: dict[str, Any]) -> None:
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    so = Copied()
    with _telling(so, files):
        try:
            content = spec["verify"] == "content"
            made = copy_all(source, partial, files, spec["files_at_once"], content, so)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    partial.rename(folder)
    told = {"source": str(source), "verify": spec["verify"], "run": spec["run_id"], "files": made}
    write_manifest(folder, told)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other run of this user copies the same model here meanwhile."""
    descriptor = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(PROGRESS, {"waits": "another run stages this model here"})
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _telling(so: Copied, files: list[SourceFile]) -> Iterator[None]:
    """Says every second how far the copy is."""
    total, ended = sum(file.size for file in files), threading.Event()

    def tell() -> None:
        while not ended.wait(EVERY_S):
            _say(PROGRESS, {"bytes": so.bytes, "total": total, "files": so.files})

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _say(mark: str, what: dict[str, Any]) -> None:
    sys.stdout.write(f"\n{mark}{json.dumps(what)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(sys.argv[1:]))
