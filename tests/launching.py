"""`python -m launcher` as a user types it: as a program, or within this process where an
interpreter and its imports for each of many lines would take most of the time."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from launcher.__main__ import main

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Said:
    """What a command line printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """This process's, without the data set that some machines have."""
    kept = {key: value for key, value in os.environ.items() if key != "GSM8K_DIR"}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def program(cwd: Path, *words: str, **env: str) -> Said:
    """`python -m launcher` in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "launcher", *words],
        cwd=cwd,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def launcher(cwd: Path, *words: str, **env: str) -> Said:
    """The same within this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(env), clear=True),
        mock.patch.object(sys, "argv", ["launcher", *words]),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main()
    return Said(code, out.getvalue(), err.getvalue())
