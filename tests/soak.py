"""`python -m tests.soak --minutes 15`: runs one after the other, each with a random fault.

Prints runs by fault and by outcome, survivors, files left behind, and how memory grew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.fakes_jobs import events, left_over
from tests.fault_matrix.stage import Stage, two_points

STEPS = ("prefill0", "decode0", "router", "client-c8")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
DRIVER_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
OPTIONS = ("exit:3@7", "hang@8", "refuse@8", "freeze@30", "http500@20", "kvfail@9", "deaf", "stuck")
LONGEST_S = 120.0
WATCHED = (Path("/dev/shm"), Path(tempfile.gettempdir()))


@dataclass
class Tally:
    """What was seen so far."""

    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    survivors: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    driver_mb: list[float] = field(default_factory=list)
    """Each run's driver at its largest."""
    largest_mb: float = 0.0
    """Of any process of any run."""


def main() -> int:
    """0 without survivors, leaked files or a run that did not end."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    tally = Tally()
    files = leftovers()
    begun = time.monotonic()
    while time.monotonic() - begun < 60 * given.minutes:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            one(Path(folder), rng, tally)
    leaked = sorted(leftovers() - files)
    sys.stdout.write(report(tally, leaked, time.monotonic() - begun, given.seed))
    return 1 if tally.survivors or leaked or tally.late else 0


def one(folder: Path, rng: random.Random, tally: Tally) -> None:
    """One run with one fault."""
    kind = rng.choice(("none", "step", "step", "driver", "option", "option"))
    word = rng.choice(OPTIONS) if kind == "option" else ""
    more = ("--fail", word) if word else ()
    role = rng.choice(("prefill_more", "decode_more"))
    document = two_points(prompts=120, **{role: ("--decode-tps", "50", *more)})
    document["run_id"] = f"r-test-{rng.getrandbits(48):012x}"  # addresses of its own, beside others
    document["plan"]["budgets"]["stall"] = {"weights_s": 5.0, "ready_s": 8.0}
    stage = Stage(folder, document)
    if kind in ("step", "driver"):
        time.sleep(rng.uniform(0.5, 14.0))
        word = strike(stage, kind, rng)
    tally.faults[word or kind] += 1
    begun = time.monotonic()
    tally.driver_mb.append(watch(stage.driver, begun + LONGEST_S))
    if stage.driver.poll() is None:
        tally.late.append(f"{word or kind}: not over after {LONGEST_S:.0f} s")
        stage.driver.kill()
    gone_by = time.monotonic() + 12
    while (left := left_over(stage.run_dir)) and time.monotonic() < gone_by:
        time.sleep(0.1)
    tally.survivors += [f"{word or kind}: {line}" for line in left]
    tally.slowest_s = max(tally.slowest_s, time.monotonic() - begun)
    tally.outcomes[status(stage)] += 1
    tally.largest_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3


def watch(driver: subprocess.Popen[str], until: float) -> float:
    """Waits for its end or until that time; its largest resident size, in MB."""
    largest_kb = 0
    while driver.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{driver.pid}/status").read_text().splitlines()
            peak = next(line for line in lines if line.startswith("VmHWM:"))
            largest_kb = max(largest_kb, int(peak.split()[1]))
        time.sleep(0.2)
    return largest_kb / 1e3


def strike(stage: Stage, kind: str, rng: random.Random) -> str:
    """A random signal to a random step that has begun, or to the driver; what it was."""
    number = rng.choice(DRIVER_SIGNALS if kind == "driver" else SIGNALS)
    pid, name = stage.driver.pid, "driver"
    if kind == "step":
        begun = {it["step"]: it["pid"] for it in events(stage.run_dir) if it["event"] == "started"}
        living = [step for step in STEPS if step in begun]
        if not living:
            return "step, none yet"
        name = rng.choice(living)
        pid = int(begun[name])
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return f"{name}, gone already"
    return f"{name} {number.name}"


def status(stage: Stage) -> str:
    """The outcome's word; `no outcome` after the driver was killed."""
    path = stage.run_dir.outcome
    return str(json.loads(path.read_text())["status"]) if path.exists() else "no outcome"


def leftovers() -> set[str]:
    """Files of ours in places that outlive a run; the user's own cache folder may stay, empty."""
    marks = ("soak-", "psm_", "sem.", "r-test")
    found = {path for folder in WATCHED for path in folder.iterdir()}
    caches = [path for path in found if path.name.startswith("launcher-") and path.is_dir()]
    found |= {path for folder in caches for path in folder.iterdir()}
    return {str(path) for path in found if path.name.startswith(marks) or path.parent in caches}


def report(tally: Tally, leaked: list[str], took_s: float, seed: int) -> str:
    """The figures, for people."""
    runs = tally.faults.total()
    faults = ", ".join(f"{name} {count}" for name, count in sorted(tally.faults.items()))
    outcomes = ", ".join(f"{name} {count}" for name, count in sorted(tally.outcomes.items()))
    tenth = max(1, runs // 10)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return (
        f"{runs} runs in {took_s / 60:.1f} min (seed {seed})\n"
        f"faults: {faults}\noutcomes: {outcomes}\n"
        f"survivors: {len(tally.survivors)} {tally.survivors[:3]}\n"
        f"not over in time: {len(tally.late)} {tally.late[:3]}\n"
        f"leaked files: {len(leaked)} {leaked[:3]}\n"
        f"slowest end after its fault: {tally.slowest_s:.1f} s\n"
        f"driver at its largest, median of the first and of the last tenth of the runs: "
        f"{median(tally.driver_mb[:tenth]):.1f} and {median(tally.driver_mb[-tenth:]):.1f} MB\n"
        f"largest process of any run: {tally.largest_mb:.0f} MB; this script: {own:.0f} MB\n"
    )


if __name__ == "__main__":
    sys.exit(main())
