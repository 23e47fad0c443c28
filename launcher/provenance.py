"""Where a run comes from: checkout, user, host, overrides."""

from __future__ import annotations

import functools
import getpass
import platform
import socket
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from launcher import __version__

PACKAGES = ("hydra-core", "omegaconf", "submitit", "aiohttp", "vllm-router")


@dataclass(frozen=True, slots=True)
class Checkout:
    """State of the launcher's own code; sha is None outside a git checkout."""

    sha: str | None
    changes: str
    """Uncommitted changes as `git status --porcelain` tells them; empty when clean."""
    diff: str


def checkout_state(code_dir: Path) -> Checkout:
    """The git state of the checkout that holds the launcher."""
    sha = _git(code_dir, "rev-parse", "HEAD")
    if sha is None:
        return Checkout(None, "", "")
    changes = _git(code_dir, "status", "--porcelain") or ""
    diff = _git(code_dir, "diff", "HEAD") or "" if changes else ""
    return Checkout(sha.strip(), changes.strip(), diff)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def provenance(checkout: Checkout, overrides: list[str]) -> dict[str, Any]:
    """What run.json keeps about the submission's origin."""
    return {
        "launcher_version": __version__,
        "git_sha": checkout.sha,
        "git_dirty": bool(checkout.changes),
        "user": getpass.getuser(),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "overrides": overrides,
        "packages": {name: _version(name) for name in PACKAGES},
    }


@functools.cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
