"""events.jsonl read as it grows: phases with their times, and where every process stands."""

from __future__ import annotations

import datetime
import json
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.plain_files import open_plain
from jobs.plain_text import printable

BLOCK = 256 * 1024
LONGEST_LINE = 1 << 20
MOST_NEWS = 1000


@dataclass(slots=True)
class Phase:
    """One phase of the run, and when it began (s since 1970)."""

    name: str
    at: float


@dataclass(slots=True)
class StepStory:
    """What is known of one process: where and when it was started, and how far it came.

    `reached` holds the start-up phases with the seconds after which each began.
    """

    name: str
    role: str = ""
    node: str = ""
    pid: int | None = None
    started_at: float | None = None
    start_up: str = ""
    reached: dict[str, float] = field(default_factory=dict)
    ready_after_s: float | None = None
    died: str = ""


@dataclass(slots=True)
class Entry:
    """One line for people."""

    at: float
    phase: str
    step: str
    text: str
    event: str


@dataclass(slots=True)
class Timeline:
    """Everything that events.jsonl told so far; `bad_lines` could not be read."""

    path: Path
    phases: list[Phase] = field(default_factory=list)
    steps: dict[str, StepStory] = field(default_factory=dict)
    last: Entry | None = None
    bad_lines: int = 0
    _news: deque[Entry] = field(default_factory=lambda: deque(maxlen=MOST_NEWS))
    _offset: int = 0

    def read(self) -> None:
        """Takes in what is new. A last line without its end waits."""
        for entry in self._entries():
            self._news.append(entry)

    def take_news(self) -> list[Entry]:
        """What was taken in since this was last asked; of very many, the last."""
        news = list(self._news)
        self._news.clear()
        return news

    @property
    def phase(self) -> str | None:
        """The phase the run is in; None before the first."""
        return self.phases[-1].name if self.phases else None

    def spans(self, until: float) -> list[tuple[str, float, float]]:
        """Every phase: name, begin, and seconds to the next one, or to `until`."""
        ends = [*(phase.at for phase in self.phases[1:]), until]
        pairs = zip(self.phases, ends, strict=False)
        return [(phase.name, phase.at, max(0.0, end - phase.at)) for phase, end in pairs]

    def _entries(self) -> Iterator[Entry]:
        for line in self._new_lines():
            try:
                entry = self._take(json.loads(line))
            except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
                self.bad_lines += 1
                continue
            self.last = entry
            yield entry

    def _new_lines(self) -> Iterator[bytes]:
        try:
            stream = open_plain(self.path)
        except OSError:
            return
        with stream:
            if os.fstat(stream.fileno()).st_size < self._offset:
                self._offset = 0
            stream.seek(self._offset)
            rest = b""
            try:
                while block := stream.read(BLOCK):
                    *whole, rest = (rest + block).split(b"\n")
                    for line in whole:
                        self._offset += len(line) + 1
                        if line.strip():
                            yield line
                    if len(rest) > LONGEST_LINE:
                        self._offset += len(rest)
                        self.bad_lines += 1
                        rest = b""
            except OSError:
                return

    def _take(self, data: dict[str, Any]) -> Entry:
        at = seconds(data["t"])
        phase, event = printable(str(data["phase"])), str(data["event"])
        if event == "phase":
            self.phases.append(Phase(phase, at))
        step = printable(str(data.get("step", "")))
        if step:
            self._step(step, event, data, at)
        for name, text in _dict(data.get("start_ups")).items():
            self._story(printable(str(name))).start_up = printable(str(text))
        return Entry(at, phase, step, printable(str(data.get("text", "")), keep="\n"), event)

    def _step(self, name: str, event: str, data: dict[str, Any], at: float) -> None:
        story = self._story(name)
        if event == "started":
            story.role = printable(str(data.get("text", "")).partition(" started on ")[0])
            story.node, story.started_at = printable(str(data.get("node", ""))), at
            story.pid = data["pid"] if isinstance(data.get("pid"), int) else None
            story.reached, story.start_up, story.died = {}, "", ""
            story.ready_after_s = None
        elif event == "start_up":
            story.start_up = printable(str(data["start_up"]))
            story.reached[story.start_up] = float(data["after_s"])
        elif event == "ready":
            story.start_up = "ready"
            story.ready_after_s = float(data["after_s"]) if "after_s" in data else None
        elif event == "died":
            story.died = printable(str(data.get("text", "")))

    def _story(self, name: str) -> StepStory:
        return self.steps.setdefault(name, StepStory(name))


def seconds(text: Any) -> float:
    """A record's time as seconds since 1970; ValueError when it is none."""
    return datetime.datetime.fromisoformat(str(text)).timestamp()


def _dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}
