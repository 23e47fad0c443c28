"""Versions of the engine's packages, told by the engine's own Python from the packages' metadata.

Nothing is imported but the standard library, and of that little: vllm itself takes many seconds,
importlib.metadata as long as all of this. Also run as a file by that Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGES = frozenset(
    {
        *("vllm", "torch", "transformers", "flashinfer-python"),
        *("nixl", "nixl-cu12", "nixl-cu13", "ray"),
    }
)
ENDING = ".dist-info"
ASK_S = 20


def installed() -> dict[str, str]:
    """Versions of those of PACKAGES that this Python finds first on its path, and its own."""
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith(ENDING)]  # noqa: PTH208
        except OSError:
            continue
        for name in names:
            package = name.partition("-")[0].replace("_", "-").lower()
            if package in PACKAGES and package not in found:
                found[package] = _version(Path(folder, name, "METADATA"))
    return {"python": ".".join(map(str, sys.version_info[:3])), **found}


def _version(metadata: Path) -> str:
    """The field Version of a METADATA file (core metadata specification)."""
    try:
        with metadata.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("Version:"):
                    return line.partition(":")[2].strip()
                if not line.strip():
                    break
    except OSError:
        pass
    return "unknown"


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
