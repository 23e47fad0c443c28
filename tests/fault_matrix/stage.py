"""A local run on which faults are tried: started, watched through its events, measured."""

from __future__ import annotations

import json
import os
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from jobs.store import RunDir
from tests.fakes_jobs import (
    events,
    left_over,
    make_run,
    pair_run,
    point,
    start_driver,
    wait_for_event,
)
from tests.fault_matrix.row import Seen
from tests.patience import wait_until

ROOT = Path(__file__).resolve().parents[2]
NO_CANARY = {"enabled": False, "prompts": 1, "tokens": 1, "prompt_tokens": 16, "form": "exact"}
SIGNS = ("died", "hung", "ending")
NO_ANSWER_S = 4.0
"""budgets.no_answer_s of these runs; a look every second, so noticed within a little more."""


def two_points(prompts: int = 4000, **options: Any) -> dict[str, Any]:
    """A run with a quick first point and a second that lasts for minutes (40 prompts a second);
    no canary."""
    options = {"canary": NO_CANARY, "decode_more": ("--decode-tps", "50"), **options}
    document = pair_run(points=(1,), **options)
    plan = document["plan"]
    long = point(1, 8, None, plan["base_url"])
    for words in (long["step"]["argv"], long["step"]["command"]):
        words[words.index("--num-prompts") + 1] = str(prompts)
    plan["points"].append({**long, "num_prompts": prompts})
    plan["budgets"] |= {"no_answer_s": NO_ANSWER_S, "no_token_s": 3 * NO_ANSWER_S}
    return document


class Stage:
    """One run in progress."""

    def __init__(self, folder: Path, document: dict[str, Any]) -> None:
        self.run_dir: RunDir = make_run(folder / "run", document)
        self.driver: subprocess.Popen[str] = start_driver(self.run_dir)
        self.struck_at = 0.0
        self.before = 0

    def pid(self, step: str) -> int:
        """The leader's pid of a step that was started."""
        return int(wait_for_event(self.run_dir, event="started", step=step)["pid"])

    def reach(self, phase: str) -> None:
        """Waits until the run is in `phase`; in the second point its requests are under way."""
        wait_for_event(self.run_dir, event="phase", phase=phase)
        if phase == "point c8":
            wait_until((self.run_dir.gates / "c8.go").exists, "the second point begins")
            time.sleep(0.7)

    def strike(self) -> None:
        """The fault happens now."""
        self.struck_at = time.time()
        self.before = len(list(self.run_dir.points.glob("*.json")))

    def kill(self, step: str, number: int) -> None:
        """A signal to a step's leader, as the fault."""
        pid = self.pid(step)
        self.strike()
        os.kill(pid, number)

    def seen(self, within_s: float = 120.0) -> Seen:
        """What the run did about it, once its driver has ended."""
        ended_at = self.ended(within_s)
        told = events(self.run_dir)
        outcome = json.loads(self.run_dir.outcome.read_text())
        signs = [seconds(it) for it in told if it["event"] in SIGNS]
        torn = next((seconds(it) for it in told if it.get("phase") == "teardown"), None)
        return Seen(
            said=outcome["cause"],
            status=outcome["status"],
            notice_s=self._after_strike(signs),
            clean_s=round(ended_at - torn, 2) if torn and signs else None,
            survivors=[*outcome["teardown"]["survivors"], *left_over(self.run_dir)],
            points_kept=len(list(self.run_dir.points.glob("*.json"))),
            points_before=self.before,
        )

    def ended(self, within_s: float) -> float:
        """When the run's driver was gone."""
        self.driver.wait(timeout=within_s)
        return time.time()

    def _after_strike(self, signs: list[float]) -> float | None:
        """From the fault to the first word; None where the run was made with its fault."""
        if not signs or not self.struck_at:
            return None
        return round(max(0.0, min(signs) - self.struck_at), 2)


def seconds(event: dict[str, Any]) -> float:
    """When an event happened, in seconds since 1970."""
    return datetime.fromisoformat(str(event["t"])).timestamp()
