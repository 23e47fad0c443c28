"""Asking Slurm's commands with a time limit, and telling apart what a failure means."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ASK_TIMEOUT_S = 30.0

OUT_OF_REACH = (
    "Unable to contact slurm controller",
    "Unable to contact slurm",
    "Slurm controller not responding",
    "Slurm backup controller in standby mode",
    "Socket timed out on send/recv operation",
    "Transport endpoint is not connected",
    "Zero Bytes were transmitted or received",
    "Unable to establish controller machine",
    "Resource temporarily unavailable",
    "temporarily unable to accept job",
    "temporarily disabled",
    "Connection refused",
    "Connection timed out",
    "Connection reset",
    "No route to host",
    "Communication connection failure",
    "Unexpected message received",
    "Insane message length",
    "Header lengths are longer than data received",
    "If munged is up",
    "Munge encode failed: Failed to access",
    "failed to open persistent connection",
)
"""What Slurm's programs say when the controller (or munge) is down, slow or restarting
(Slurm 24.11.5: common/slurm_errno.c, slurm_protocol_api.c, auth_munge.c)."""

NO_ACCOUNTING = ("Slurm accounting storage is disabled", "accounting_storage/none")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said. `code` is None when it gave no answer in time or could not be run."""

    code: int | None
    out: str = ""
    err: str = ""

    @property
    def good(self) -> bool:
        """Whether the output may be read as an answer."""
        return self.code == 0

    @property
    def said(self) -> str:
        """The last thing it said, for people."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"ended with {self.code}"

    @property
    def out_of_reach(self) -> bool:
        """Whether this was the controller's absence, not its answer."""
        return self.code is None or any(words in self.err for words in OUT_OF_REACH)


Asker = Callable[[Sequence[str]], Answer]
"""Runs one command; never raises."""


def ask_slurm(command: Sequence[str], timeout_s: float = ASK_TIMEOUT_S) -> Answer:
    """One command's answer within `timeout_s`; code None for one that is missing or silent."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(None, "", f"{command[0]} gave no answer within {timeout_s:.0f} s")
    except OSError as error:
        return Answer(None, "", f"{command[0]} cannot be run: {error.strerror}")
    return Answer(done.returncode, done.stdout, done.stderr)
