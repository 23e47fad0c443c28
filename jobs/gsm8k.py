"""The accuracy run: arithmetic word problems over /v1/completions, scored as vLLM's own test does.

Prompt: a few solved examples ("Question: ..\nAnswer: ..\n\n"), then the question. Score: the last
whole number of the answer after removing commas (vLLM's tests/evals/gsm8k), and beside it a
stricter one: the number after "####" or "answer is", sign and decimals kept.
A request that never got an answer is not an answer: it is retried, counted, and not scored.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from jobs.extraction import label_number, last_number, strict_number
from jobs.progress import progress_told
from jobs.records import AccuracyRepeat

WORD_PROBLEMS = "word_problems"
DATA = Path(__file__).parent / "data"
FORMAT = 'one JSON object a line with "question" and "answer", the answer ending in "#### N"'
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 20.0
RETRIED_STATUS = 429


class QuestionsError(ValueError):
    """A question file that is missing or no question file; the text names it and the format."""


@dataclass(frozen=True, slots=True)
class Question:
    """One problem and its solved answer, as the file has it."""

    question: str
    answer: str


@dataclass(slots=True)
class Score:
    """One pass, being counted."""

    answered: int = 0
    correct: int = 0
    strict_correct: int = 0
    invalid: int = 0
    cut: int = 0
    transport_failures: int = 0
    output_tokens: int = 0
    retries: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def so_far(self) -> tuple[int, int, None]:
        """Questions that are done, those without an answer among them; tokens are not told."""
        return self.answered + self.transport_failures, self.transport_failures, None

    def take(self, question: Question, answer: Answer) -> None:
        """Scores one answer."""
        self.answered += 1
        self.output_tokens += answer.tokens
        self.cut += answer.cut
        number = last_number(answer.text)
        self.invalid += number is None
        self.correct += number is not None and number == last_number(question.answer)
        strict = strict_number(answer.text)
        self.strict_correct += strict is not None and strict == label_number(question.answer)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said; `cut` when it ended at the token limit."""

    text: str
    cut: bool
    tokens: int


class NoAnswerError(Exception):
    """An attempt without an answer; `again` says whether another one is worth it."""

    def __init__(self, kind: str, again: bool) -> None:
        super().__init__(kind)
        self.kind = kind
        self.again = again


def load_questions(path: Path | str, limit: int | None = None) -> list[Question]:
    """The first `limit` questions of a file; QuestionsError says which file and which line."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionsError(f"cannot read {path}: {error}; needed: {FORMAT}") from error
    found: list[Question] = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and (limit is None or len(found) < limit):
            found.append(_question(line, f"{path}:{number}"))
    if not found or (limit is not None and len(found) < limit):
        raise QuestionsError(
            f"{path} has {len(found)} questions, {limit or 'at least 1'} wanted; needed: {FORMAT}"
        )
    return found


def _question(line: str, where: str) -> Question:
    try:
        data = json.loads(line)
        question = Question(str(data["question"]), str(data["answer"]))
    except (ValueError, KeyError, TypeError) as error:
        raise QuestionsError(f"{where}: {error!r}; needed: {FORMAT}") from error
    if "####" not in question.answer or label_number(question.answer) is None:
        raise QuestionsError(f"{where}: answer has no '#### N'; needed: {FORMAT}")
    return question


def few_shot_prefix(shots: Sequence[Question]) -> str:
    """The solved examples that precede every question."""
    return "".join(f"Question: {shot.question}\nAnswer: {shot.answer}\n\n" for shot in shots)


async def run_repeat(
    acc: dict[str, Any],
    repeat: int,
    base_url: str,
    model: str,
    api_key: str | None,
    run_id: str,
    rehearsal: bool,
    tell: Path | None = None,
) -> AccuracyRepeat:
    """One pass over the questions of the plan's accuracy part `acc`.

    `base_url` is the router's, without /v1. Each repeat has its own sampling seed (seed +
    repeat). QuestionsError before anything is sent when a file is not as needed. `tell` is a
    file that says meanwhile how far it is.
    """
    questions, prefix = load_protocol(acc)
    body = {
        "model": model,
        "temperature": acc["temperature"],
        "max_tokens": acc["max_tokens"],
        "stop": acc["stop"],
        "seed": acc["seed"] + repeat,
    }
    score = Score()
    begun = time.monotonic()
    async with _open_session(base_url, api_key, acc["timeout_s"]) as session:
        waiting = iter(questions)

        async def stream() -> None:
            for question in waiting:
                prompt = f"{prefix}Question: {question.question}\nAnswer:"
                await _ask(session, {**body, "prompt": prompt}, question, score, acc["retries"])

        with progress_told(tell, "questions", len(questions), score.so_far):
            streams = min(acc["concurrency"], len(questions))
            await asyncio.gather(*(stream() for _ in range(streams)))
    return _record(acc, repeat, run_id, rehearsal, len(questions), score, time.monotonic() - begun)


def load_protocol(acc: dict[str, Any]) -> tuple[list[Question], str]:
    """The questions and the few-shot prefix that `acc` asks for.

    Word problems default to the small set that comes with the product; gsm8k has no default:
    its test and train files must be given. QuestionsError otherwise.
    """
    own = acc["dataset"] == WORD_PROBLEMS
    questions = acc.get("questions_path") or (DATA / "word_problems.jsonl" if own else None)
    shots = acc.get("shots_path") or (DATA / "word_problems_shots.jsonl" if own else None)
    for name, path in (("questions_path", questions), ("shots_path", shots)):
        if path is None and (name == "questions_path" or acc["num_shots"]):
            raise QuestionsError(
                f"accuracy.{name} is not set: {acc['dataset']} needs a file with {FORMAT} "
                "(questions: the test set; shots: the train set)"
            )
    assert questions is not None
    prefix = ""
    if acc["num_shots"]:
        assert shots is not None
        prefix = few_shot_prefix(load_questions(shots, acc["num_shots"]))
    return load_questions(questions, acc.get("num_questions")), prefix


async def _ask(
    session: aiohttp.ClientSession,
    body: dict[str, Any],
    question: Question,
    score: Score,
    retries: int,
) -> None:
    """One question until it is answered or out of attempts; scored or counted as a failure."""
    for attempt in range(retries + 1):
        try:
            score.take(question, await _attempt(session, body))
        except NoAnswerError as error:
            if error.again and attempt < retries:
                score.retries += 1
                await asyncio.sleep(min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S))
                continue
            score.transport_failures += 1
            score.errors[error.kind] += 1
        return


async def _attempt(session: aiohttp.ClientSession, body: dict[str, Any]) -> Answer:
    """One request; NoAnswerError unless it is 200 with a choice."""
    try:
        async with session.post("/v1/completions", json=body) as response:
            if response.status != 200:
                again = response.status >= 500 or response.status == RETRIED_STATUS
                raise NoAnswerError(f"http_{response.status}", again)
            data = await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise NoAnswerError(type(error).__name__, True) from error
    except ValueError as error:
        raise NoAnswerError("bad_json", True) from error
    try:
        choice = data["choices"][0]
        tokens = int((data.get("usage") or {}).get("completion_tokens") or 0)
        return Answer(choice.get("text") or "", choice.get("finish_reason") == "length", tokens)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise NoAnswerError("bad_answer", True) from error


def _open_session(base_url: str, api_key: str | None, timeout_s: float) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return aiohttp.ClientSession(
        base_url,
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(30.0, timeout_s)),
    )


def _record(
    acc: dict[str, Any],
    repeat: int,
    run_id: str,
    rehearsal: bool,
    questions: int,
    score: Score,
    duration_s: float,
) -> AccuracyRepeat:
    """The record; word problems and rehearsals are never comparable."""
    answered = score.answered
    comparable = bool(acc["comparable"]) and acc["dataset"] != WORD_PROBLEMS and not rehearsal
    kept = ("num_shots", "max_tokens", "temperature", "stop", "concurrency", "timeout_s", "retries")
    return AccuracyRepeat(
        run_id=run_id,
        repeat=repeat,
        dataset=acc["dataset"],
        comparable=comparable,
        rehearsal=rehearsal,
        questions=questions,
        answered=answered,
        correct=score.correct,
        invalid=score.invalid,
        cut=score.cut,
        transport_failures=score.transport_failures,
        accuracy=score.correct / answered if answered else None,
        strict_accuracy=score.strict_correct / answered if answered else None,
        duration_s=duration_s,
        output_tokens=score.output_tokens,
        protocol={
            "endpoint": "completions",
            "extraction": "last_number",
            "strict_extraction": "after #### or 'answer is'",
            "seed": acc["seed"] + repeat,
            "retries_used": score.retries,
            **{key: acc[key] for key in kept},
        },
        errors=dict(score.errors),
    )
