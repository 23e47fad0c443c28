"""Accuracy repeats through the router, each written as it lands."""

from __future__ import annotations

import asyncio
import dataclasses

from jobs.errors import JobError
from jobs.events import Journal
from jobs.gsm8k import QuestionsError, load_protocol, run_repeat
from jobs.records import AccuracyRepeat, to_json
from jobs.rendezvous import Deployment
from jobs.run_spec import AccuracyPlan, RunSpec
from jobs.store import RunDir, write_json


def check_questions(accuracy: AccuracyPlan | None) -> None:
    """Reads the questions before anything is started; JobError when they are not as needed."""
    if accuracy is None:
        return
    try:
        load_protocol(dataclasses.asdict(accuracy))
    except QuestionsError as error:
        raise JobError(f"accuracy: {error}") from error


async def measure_accuracy(
    run: RunSpec, deployment: Deployment, run_dir: RunDir, api_key: str, journal: Journal
) -> None:
    """Every repeat that has no record yet.

    A repeat without a single answer has measured nothing: JobError at once, and no record. One
    that lost some of its questions is recorded, so that the tables can say so, and the others are
    asked; then JobError: the set that was asked for has no score, and a resume asks again what
    is short (jobs/landed.py).
    """
    accuracy = run.plan.accuracy
    if accuracy is None:
        return
    lost: list[str] = []
    for repeat in range(accuracy.repeats):
        path = run_dir.repeat(repeat)
        if path.exists():
            continue
        try:
            async with asyncio.timeout(run.plan.budgets.accuracy_s):
                record = await run_repeat(
                    dataclasses.asdict(accuracy),
                    repeat,
                    deployment.base_url,
                    run.plan.served_model,
                    api_key,
                    run.run_id,
                    run.engine.rehearsal,
                    run_dir.progress("accuracy"),
                )
        except TimeoutError:
            raise JobError(
                f"accuracy repeat {repeat} is not done within budgets.accuracy_s = "
                f"{run.plan.budgets.accuracy_s:.0f} s"
            ) from None
        if not record.answered:
            raise JobError(
                f"accuracy repeat {repeat}: none of {record.questions} questions got an answer "
                f"({_reasons(record)}); the points are kept, python -m jobs resume asks again"
            )
        if record.transport_failures:
            lost.append(_lost(record))
        record.snapshot = run.snapshot_sha256
        write_json(path, to_json(record))
        score = f"{record.correct / record.answered:.1%}"
        journal.note(
            "repeat",
            f"repeat {repeat + 1} of {accuracy.repeats}: {score} of {record.answered} right, "
            f"{record.invalid} without a number, {record.transport_failures} transport failures",
        )
    if lost:
        raise JobError(
            f"accuracy: {'; '.join(lost)}: no score is judged; the points are kept, python -m jobs "
            "resume asks these repeats again"
        )


def _lost(record: AccuracyRepeat) -> str:
    return (
        f"{record.transport_failures} of {record.questions} questions of repeat {record.repeat} "
        f"never got an answer ({_reasons(record)})"
    )


def _reasons(record: AccuracyRepeat) -> str:
    return ", ".join(f"{count} x {why}" for why, count in record.errors.items())
