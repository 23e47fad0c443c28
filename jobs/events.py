"""What happened when: one line in events.jsonl and one line in the job's output, together."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from jobs.allocation import utc_now
from jobs.redaction import Redactor
from jobs.store import append_event

log = logging.getLogger("jobs")


class Journal:
    """Writes events.jsonl and the log; knows the phase the run is in."""

    def __init__(self, path: Path, redact: Redactor | None = None) -> None:
        self._path = path
        self._redact = redact or Redactor(())
        self.phase = "begin"

    def enter(self, phase: str, text: str = "") -> None:
        """The run is in `phase` from now on."""
        self.phase = phase
        self.note("phase", text or "begins")

    def note(
        self,
        event: str,
        text: str,
        *,
        step: str | None = None,
        level: int = logging.INFO,
        **more: Any,
    ) -> None:
        """One state change: `text` for people, `more` for programs."""
        text = self._redact(text)
        subject = f"{step}: " if step else ""
        log.log(level, "%s | %s%s", self.phase, subject, text)
        entry: dict[str, Any] = {"t": utc_now(), "phase": self.phase, "event": event}
        if step:
            entry["step"] = step
        try:
            append_event(self._path, {**entry, "text": text, **more})
        except OSError as error:
            # A full disk must not keep the tear-down from happening.
            log.error("%s cannot be written: %s", self._path, error)

    def warn(self, event: str, text: str, **more: Any) -> None:
        """Something a reader of the results should know."""
        self.note(event, text, level=logging.WARNING, **more)
