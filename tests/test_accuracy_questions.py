"""The accuracy's questions: enough of them before the queue, and answers before a score."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from jobs.accuracy import measure_accuracy
from jobs.engines import dialect_of
from jobs.errors import JobError
from jobs.events import Journal
from jobs.probing import Http
from jobs.rendezvous import Deployment
from jobs.run_file import read_run
from jobs.store import RunDir
from launcher.questions import question_problems
from launcher.schema import AccuracyConfig
from tests.fakes_jobs import REPO, free_ports, pair_run

GOOD = json.dumps({"question": "1+1?", "answer": "so 2 #### 2"})


def told(
    folder: Path, questions: str, shots: str, num_questions: int | None = None, num_shots: int = 2
) -> list[str]:
    """What is wrong with these files."""
    (folder / "test.jsonl").write_text(questions)
    (folder / "train.jsonl").write_text(shots)
    asked = AccuracyConfig(dataset="gsm8k", data_dir=str(folder), num_shots=num_shots)
    asked.num_questions = num_questions
    return list(question_problems(asked, REPO))


def test_files_that_hold_what_is_asked_for_are_fine(tmp_path: Path) -> None:
    assert told(tmp_path, f"{GOOD}\n\n{GOOD}\n", f"{GOOD}\n" * 2 + "torn") == []
    assert told(tmp_path, f"{GOOD}\n", "", num_shots=0) == []


@pytest.mark.parametrize(
    ("questions", "shots", "words"),
    [
        (f"{GOOD}\n" * 2, f"{GOOD}\n" * 2, "accuracy.num_questions=3: "),
        (f"{GOOD}\n" * 3, f"{GOOD}\n", "accuracy.num_shots=2: "),
        (f"{GOOD}\n" * 2 + '{"question": "torn', f"{GOOD}\n" * 2, "line 3 is no question"),
        (f"{GOOD}\n" * 2 + '{"question": "1"}\n', f"{GOOD}\n" * 2, "line 3 is no question"),
        (f"{GOOD}\n" * 3, f"{GOOD}\n[1]\n", "line 2 is no question"),
        (f"{GOOD}\n" * 2 + '{"question": "1", "answer": "2"}\n', f"{GOOD}\n" * 2, "line 3"),
    ],
)
def test_too_few_questions_and_lines_that_are_none_are_told_before_the_queue(
    questions: str, shots: str, words: str, tmp_path: Path
) -> None:
    (problem,) = told(tmp_path, questions, shots, num_questions=3)
    assert words in problem


def test_the_sets_own_number_of_word_problems_is_the_limit() -> None:
    asked = AccuracyConfig(dataset="word_problems", num_questions=41, num_shots=0)
    (problem,) = question_problems(asked, REPO)
    assert "accuracy.num_questions=41: " in problem
    assert problem.endswith("has 40; allowed: up to 40")


def test_an_accuracy_without_one_answer_fails_the_run_and_leaves_no_record(tmp_path: Path) -> None:
    plan = {
        **{"dataset": "word_problems", "comparable": False, "repeats": 1, "num_questions": 2},
        **{"num_shots": 0, "max_tokens": 8, "temperature": 0.0, "seed": 1, "stop": []},
        **{"concurrency": 2, "timeout_s": 5.0, "retries": 0, "tolerance": 0.03},
    }
    (port,) = free_ports(1)
    document = pair_run(accuracy=plan, base_url=f"http://127.0.0.1:{port}")
    run_dir = RunDir(tmp_path)
    run_dir.run_json.write_text(json.dumps(document))
    run_dir.make_folders()
    run = read_run(run_dir.run_json)

    async def measure() -> None:
        async with Http("the-key") as http:
            where = Deployment(run.plan, dialect_of("vllm"), http, {})
            await measure_accuracy(run, where, run_dir, "the-key", Journal(run_dir.events))

    with pytest.raises(JobError, match=r"none of 2 questions got an answer .*2 x \w+"):
        asyncio.run(measure())
    assert not run_dir.repeat(0).exists()
