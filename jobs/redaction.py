"""Secrets kept out of records and logs: the run's own key, and tokens of the environment.

A variable is secret by its name (HF_TOKEN, AWS_SECRET_ACCESS_KEY, MY_PASSWORD ...); its value is
blotted out wherever the driver writes, and in the steps' logs once they are over.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|APIKEY|AUTH)(_|$)|(API|ACCESS|PRIVATE)_?KEY"
    r"(_|$)",
    re.IGNORECASE,
)
PUBLIC_NAMES = frozenset({"SSH_AUTH_SOCK", "HF_TOKEN_PATH"})
SHORTEST = 8
"""A shorter value is a word or a number that stands in many places for other reasons."""

BLOT = "***"


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """Values of the variables that are secret by name, longest first; paths that exist are not."""
    found = {
        value.strip()
        for name, value in environ.items()
        if SECRET_NAME.search(name) and name not in PUBLIC_NAMES and not value.startswith("/")
    }
    return sorted((value for value in found if len(value) >= SHORTEST), key=len, reverse=True)


class Redactor:
    """Blots out secrets in text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = list(secrets)

    def __call__(self, text: str) -> str:
        """`text` without any of the secrets."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, BLOT)
        return text

    def scrub(self, paths: Iterable[Path]) -> list[Path]:
        """Overwrites the secrets in these files with asterisks, in place; the files that had one.

        Sizes stay as they are, so that whoever reads along loses no place.
        """
        touched = []
        for path in paths:
            try:
                if self._scrub(path):
                    touched.append(path)
            except (OSError, ValueError):
                continue  # gone, empty, or not a file that can be mapped
        return touched

    def _scrub(self, path: Path) -> bool:
        if path.is_symlink() or not path.is_file():
            return False
        found = False
        with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as text:
            for secret in (secret.encode() for secret in self._secrets):
                place = text.find(secret)
                while place >= 0:
                    found = True
                    text[place : place + len(secret)] = b"*" * len(secret)
                    place = text.find(secret, place + len(secret))
        return found
