"""Questions that never got an answer: the job fails, no gate passes, a resume asks again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from analysis.accuracy import AccuracyPlan, describe, gate, summarize
from jobs.landed import look_at_records, set_aside
from jobs.run_file import read_run
from tests.analysis_runs import GSM8K, repeat
from tests.fakes_jobs import PYTHON, REPO, make_run, outcome, pair_run

ASKED: dict[str, Any] = {
    "dataset": "word_problems", "comparable": False, "repeats": 2, "questions_path": None,
    "shots_path": None, "num_questions": 4, "num_shots": 2, "max_tokens": 16, "temperature": 0.0,
    "seed": 1, "stop": ["Question"], "concurrency": 2, "timeout_s": 30, "retries": 0,
    "reference": None, "tolerance": 0.03,
}  # fmt: skip


def test_a_run_that_lost_some_questions_fails_and_a_resume_asks_that_repeat_again(
    tmp_path: Path,
) -> None:
    # Decode's first request proves the way, then come 4 of repeat 0 and 4 of repeat 1.
    document = pair_run(
        points=(), accuracy=ASKED, decode_more=("--fail", "http500@7-8"),
        canary={"enabled": False, "prompts": 1, "tokens": 4, "prompt_tokens": 64, "form": "exact"},
    )  # fmt: skip
    run_dir = make_run(tmp_path, document)
    words = [PYTHON, "-m", "jobs", "run", str(tmp_path)]
    ended = subprocess.run(words, cwd=REPO, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 1, ended.stderr
    told = outcome(run_dir)
    assert (told["status"], told["phase"]) == ("failed", "accuracy")
    assert "2 of 4 questions of repeat 1 never got an answer (2 x http_500)" in told["cause"]
    assert "resume asks these repeats again" in told["cause"]
    assert json.loads(run_dir.repeat(1).read_text())["transport_failures"] == 2
    run = read_run(run_dir.run_json)
    assert look_at_records(run, run_dir).missing(run) == ["accuracy repeat 2 of 2"]
    set_aside(run, run_dir, look_at_records(run, run_dir))
    assert [run_dir.repeat(number).exists() for number in (0, 1)] == [True, False]


@pytest.mark.parametrize(
    ("correct", "lost", "state"),
    [
        (1161, 0, "passed"),
        (1160, 1, "not decided"),
        (1100, 100, "not decided"),
        (1019, 100, "FAILED"),
    ],
)
def test_with_lost_questions_a_gate_never_passes_and_fails_only_where_it_must(
    correct: int, lost: int, state: str
) -> None:
    answers = [
        repeat(n, correct=correct, answered=1319 - lost, transport_failures=lost) for n in range(5)
    ]
    plan, summary = AccuracyPlan(**GSM8K), summarize(answers)
    assert gate(plan, summary).value == state
    if lost:
        assert f"{5 * lost} of 6595 never answered" in describe(plan, summary)
