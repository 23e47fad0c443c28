"""Versions of the engine's packages, told by the engine's own Python: its metadata, no import.

Also run as a file by that Python, so it uses nothing but the standard library.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

PACKAGES = (
    *("vllm", "torch", "transformers", "flashinfer-python"),
    *("nixl", "nixl-cu12", "nixl-cu13", "ray"),
)
ASK_S = 20


def installed() -> dict[str, str]:
    """Versions of those of PACKAGES that this Python has, and its own."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def ask(python: str) -> dict[str, str] | str:
    """What another Python has installed; a sentence when it does not tell."""
    try:
        done = subprocess.run(
            [python, "-I", str(Path(__file__).resolve())],
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=False,
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return f"{python}: {error}"
    if not isinstance(answer, dict):
        return f"{python} ended with {done.returncode}: {done.stderr.strip()[-200:]}"
    return {str(name): str(version) for name, version in answer.items()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(installed()))
