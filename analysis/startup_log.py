"""Milestones of a start-up in an engine's log.

vLLM stamps its lines `INFO 11-29 21:10:26 [file.py:1]`: month, day and time of the node's own
clock and zone, no year. Words as in vLLM 0.26 to 0.33 (v1/engine/core.py, v1/worker/,
model_executor/model_loader/, compilation/); tests/test_vllm_words.py holds them against the
installed release. Several ranks share a log: a phase begins with the first of them and ends with
the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

HEAD_BYTES = 8 * 1024 * 1024
"""Of a log: a start-up says far less than this."""

STAMP = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
TOOK = r"(?:took|takes) (?P<took>\d+(?:\.\d+)?)"


@dataclass(frozen=True)
class Mark:
    """Words, and the milestones that their line is: `begin` at its time less what it took."""

    words: re.Pattern[str]
    begin: str = ""
    end: str = ""


MARKS = (
    Mark(re.compile(r"Starting to load model|Loading model from scratch"), begin="weights"),
    Mark(re.compile(rf"Initializing model {TOOK}"), begin="weights"),
    Mark(re.compile(rf"Loading weights {TOOK}"), begin="weights", end="weights"),
    Mark(re.compile(r"Model loading took \S+ GiB(?: memory)? and (?P<took>\d+(?:\.\d+)?)"),
         begin="weights", end="weights"),
    Mark(re.compile(r"Starting torch\.compile|Warming up model for the compilation"),
         begin="compile"),
    Mark(re.compile(r"Warming up done"), end="compile"),
    Mark(re.compile(r"Dynamo bytecode transform time: (?P<took>\d+(?:\.\d+)?)"),
         begin="compile", end="compile"),
    Mark(re.compile(rf"Compiling a graph .*{TOOK}"), begin="compile", end="compile"),
    Mark(re.compile(rf"Directly load the compiled graph.*{TOOK}"), begin="compile", end="compile"),
    Mark(re.compile(rf"torch\.compile .*{TOOK}"), begin="compile", end="compile"),
    Mark(re.compile(r"Available KV cache memory|KV cache size: |for KV cache on node"
                    r"|Registering KV_Caches|SSM registration: "),
         begin="kv_cache", end="kv_cache"),
    Mark(re.compile(r"Torch profiler (?:en|dis)abled for CUDA graph capture"), begin="graphs"),
    Mark(re.compile(r"[Gg]raph capturing finished in (?P<took>\d+(?:\.\d+)?) secs"),
         begin="graphs", end="graphs"),
    Mark(re.compile(r"Capturing CUDA graphs \(imitated\)"), begin="graphs"),
    Mark(re.compile(r"init engine \("), end="engine"),
    Mark(re.compile(r"Starting vLLM server on"), end="server"),
)  # fmt: skip


@dataclass
class Milestones:
    """Seconds since the log's own zero (a naive clock): `first` line, and bounds of phases."""

    first: float | None = None
    begins: dict[str, float] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)

    def shifted(self, by_s: float) -> Milestones:
        """The same on another clock."""
        return Milestones(
            None if self.first is None else self.first + by_s,
            {name: t + by_s for name, t in self.begins.items()},
            {name: t + by_s for name, t in self.ends.items()},
        )


def read_milestones(log: Path, year: int) -> Milestones:
    """What a log tells of its process's start-up; times as if its stamps were UTC in `year`.

    Of a log that was cut (cluster.log_limit_mb) the beginning lies in `<name>.first.log`.
    """
    first = log.with_name(f"{log.stem}.first.log")
    try:
        with (first if first.exists() else log).open("rb") as stream:
            text = stream.read(HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return Milestones()
    return milestones(re.split(r"[\r\n]+", text), year)


def milestones(lines: Iterable[str], year: int) -> Milestones:
    """As read_milestones, of lines. What comes after the server's start is no start-up."""
    found = Milestones()
    for raw in lines:
        line = ANSI.sub("", raw)
        t = stamp(line, year)
        if t is None:
            continue
        if found.first is None:
            found.first = t
        for mark in MARKS:
            match = mark.words.search(line)
            if match:
                _take(found, mark, match, t)
                break
        if "server" in found.ends and t > found.ends["server"] + 1.0:
            break
    return found


def _take(found: Milestones, mark: Mark, match: re.Match[str], t: float) -> None:
    took = float(match.groupdict().get("took") or 0.0)
    if mark.begin:
        found.begins[mark.begin] = min(found.begins.get(mark.begin, t), t - took)
    if mark.end:
        found.ends[mark.end] = max(found.ends.get(mark.end, t), t)


def stamp(line: str, year: int) -> float | None:
    """A line's time in seconds since 1970 as if it were UTC; None without one."""
    found = STAMP.search(line)
    if not found:
        return None
    month, day, hour, minute, second = (int(part) for part in found.groups())
    try:
        moment = datetime.fromisoformat(
            f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00"
        )
    except ValueError:
        return None
    return moment.timestamp()
