"""The accuracy run: extraction, transport failures, files, and the word problems themselves."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import jobs.gsm8k as gsm8k
from jobs.extraction import label_number, last_number, strict_number
from jobs.gsm8k import (
    DATA,
    QuestionsError,
    load_protocol,
    load_questions,
    run_repeat,
)
from jobs.records import AccuracyRepeat
from tests.patience import PATIENCE_S
from tests.rehearsal_process import KEY, MODEL, worker

FILES = [DATA / "word_problems.jsonl", DATA / "word_problems_shots.jsonl"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def plan(**changed: Any) -> dict[str, Any]:
    """The accuracy part of a plan."""
    given = {
        "dataset": "word_problems",
        "comparable": False,
        "repeats": 1,
        "questions_path": str(FILES[0]),
        "shots_path": str(FILES[1]),
        "num_questions": 10,
        "num_shots": 5,
        "max_tokens": 256,
        "temperature": 0.0,
        "seed": 42,
        "stop": ["Question"],
        "concurrency": 4,
        "timeout_s": 5.0,
        "retries": 2,
    }
    return given | changed


def repeat_against(handler: Handler, repeat: int = 0, **changed: Any) -> AccuracyRepeat:
    """The record of a pass against a server that answers with `handler`."""

    async def go() -> AccuracyRepeat:
        app = web.Application()
        app.router.add_post("/v1/completions", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.11", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            url = f"http://127.0.0.11:{port}"
            return await run_repeat(plan(**changed), repeat, url, MODEL, KEY, "run", False)
        finally:
            await runner.cleanup()

    return asyncio.run(go())


def saying(text: str | None, finish: str = "stop") -> web.Response:
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return web.json_response({"choices": [choice], "usage": {"completion_tokens": 9}})


def solved(prompt: str) -> str:
    """The right answer to the last question of a prompt."""
    question = prompt.rsplit("Question: ", 1)[1].removesuffix("\nAnswer:")
    return next(q.answer for q in load_questions(FILES[0]) if q.question == question)


async def solve(request: web.Request) -> web.Response:
    return saying(" " + solved((await request.json())["prompt"]))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("so 1,234 in all", 1234),
        ("it is -7", 7),
        ("that is 18.00", 0),
        ("in room 05", None),
        ("no number", None),
        ("", None),
        ("3 + 4 = 7\n#### 7", 7),
        ("$1,234.00", 0),
        ("72.", 72),
        ("1e3", 3),
        ("3/4", 4),
        ("\\boxed{42}", 42),
        ("\u0661\u0662", None),
        ("9" * 5000, None),
    ],
)
def test_the_last_number_is_found_as_vllms_own_evaluation_finds_it(
    text: str, number: int | None
) -> None:
    assert last_number(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("... #### -1,250.50 and 3", Decimal("-1250.50")),
        ("The answer is 18. There are 4 left", Decimal(18)),
        ("the answer is: $5", Decimal(5)),
        ("#### $7", Decimal(7)),
        ("so 12", None),
        ("#### \u22125", Decimal(-5)),
        ("#### - 5", Decimal(-5)),
        ("#### $-5", Decimal(-5)),
        ("#### -$5", Decimal(-5)),
        ("#### +5", Decimal(5)),
        ("#### \u20ac1,234.00", Decimal(1234)),
        ("#### 1\u202f234", Decimal(1234)),
        ("#### 72.", Decimal(72)),
        ("the answer is .5.", Decimal("0.5")),
        ("The answer is **$42**.", Decimal(42)),
        ("the answer is 18, 5 of them red", Decimal(18)),
        ("the answer is 18. 5 are red", Decimal(18)),
        ("#### 18\n\nQuestion 2", Decimal(18)),
        ("#### 18\n#### 19", Decimal(18)),
        ("#### 5km", Decimal(5)),
        ("#### 18%", Decimal(18)),
        ("#### 18/hour", Decimal(18)),
        ("a 5-day trip: the answer is 5-day", Decimal(5)),
        ("#### 0", Decimal(0)),
        ("#### 05", Decimal(5)),
        ("#### 3/4", None),
        ("#### 1e3", None),
        ("#### 10:30", None),
        ("#### 10-5", None),
        ("the answer is 5 + 6 = 11", None),
        ("#### 1.2.3", None),
        ("#### 1,23", None),
        ("#### 1 234", None),
        ("#### 1_000", None),
        ("#### \u0661\u0662", None),
        ("#### \\boxed{5}", None),
        ("#### \u00bd", None),
        ("####", None),
        ("the answer is not 5, it is 6", None),
        ("#### " + "9" * 5000, Decimal("9" * 5000)),
    ],
)
def test_the_strict_number_keeps_sign_and_decimals_and_needs_a_marker(
    text: str, number: Decimal | None
) -> None:
    assert strict_number(text) == number


def test_right_answers_are_all_right_by_both_scores() -> None:
    got = repeat_against(solve)
    assert (got.questions, got.answered, got.correct) == (10, 10, 10)
    assert got.accuracy == got.strict_accuracy == 1.0
    assert (got.invalid, got.cut, got.transport_failures, got.errors) == (0, 0, 0, {})
    assert got.output_tokens == 90


def test_the_prompt_is_five_solved_examples_and_the_question() -> None:
    bodies = []

    async def keep(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {KEY}"
        bodies.append(await request.json())
        return saying("1")

    repeat_against(keep, repeat=3, num_questions=1)
    prompt = bodies[0]["prompt"]
    shots, first = load_questions(FILES[1]), load_questions(FILES[0], 1)[0]
    assert prompt.startswith(f"Question: {shots[0].question}\nAnswer: {shots[0].answer}\n\n")
    assert prompt.endswith(f"\n\nQuestion: {first.question}\nAnswer:")
    assert prompt.count("Question: ") == 6
    assert bodies[0]["seed"] == 45
    assert (bodies[0]["max_tokens"], bodies[0]["temperature"]) == (256, 0.0)
    assert bodies[0]["stop"] == ["Question"]


def test_failures_are_retried_and_the_answer_that_follows_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gsm8k, "FIRST_PAUSE_S", 0.01)
    seen: set[str] = set()

    async def first_fails(request: web.Request) -> web.StreamResponse:
        prompt = (await request.json())["prompt"]
        if prompt not in seen:
            seen.add(prompt)
            return web.Response(status=[429, 500, 503][len(seen) % 3])
        return await solve(request)

    got = repeat_against(first_fails)
    assert (got.answered, got.correct, got.transport_failures) == (10, 10, 0)
    assert got.protocol["retries_used"] == 10


def test_requests_without_an_answer_are_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gsm8k, "FIRST_PAUSE_S", 0.01)
    refused = {q.question for q in load_questions(FILES[0], 3)}

    async def some_fail(request: web.Request) -> web.StreamResponse:
        prompt = (await request.json())["prompt"]
        if any(prompt.endswith(f"{question}\nAnswer:") for question in refused):
            return web.Response(status=503)
        return await solve(request)

    got = repeat_against(some_fail)
    assert (got.questions, got.answered, got.correct) == (10, 7, 7)
    assert (got.transport_failures, got.errors) == (3, {"http_503": 3})
    assert got.accuracy == 1.0


def test_a_refused_key_is_not_tried_again() -> None:
    calls = 0

    async def refuse(request: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.Response(status=401)

    got = repeat_against(refuse)
    assert (calls, got.answered, got.accuracy) == (10, 0, None)
    assert got.errors == {"http_401": 10}


def test_a_silent_server_is_a_transport_failure_and_not_a_wrong_answer() -> None:
    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(2)
        return web.Response()

    got = repeat_against(silent, timeout_s=0.2, retries=0, num_questions=2)
    assert (got.answered, got.transport_failures, got.accuracy) == (0, 2, None)
    assert sum(got.errors.values()) == 2


def test_answers_that_end_at_the_token_limit_are_counted_as_cut() -> None:
    async def cut(request: web.Request) -> web.Response:
        return saying(None, "length")

    got = repeat_against(cut)
    assert (got.answered, got.cut, got.invalid, got.accuracy) == (10, 10, 10, 0.0)


def test_word_problems_and_rehearsals_are_never_comparable() -> None:
    got = repeat_against(solve, comparable=True, num_questions=1)
    assert not got.comparable
    got = repeat_against(solve, comparable=True, num_questions=1, dataset="gsm8k")
    assert got.comparable


def test_at_most_the_asked_number_of_requests_is_under_way() -> None:
    now, peak = 0, 0
    reached = asyncio.Event()

    async def busy(request: web.Request) -> web.Response:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        if now >= 3:
            reached.set()
        await asyncio.wait_for(reached.wait(), PATIENCE_S)
        await asyncio.sleep(0.02)
        now -= 1
        return saying("1")

    repeat_against(busy, concurrency=3)
    assert peak == 3


def test_a_missing_file_is_named_with_the_format_needed(tmp_path: Path) -> None:
    with pytest.raises(QuestionsError, match=r'nowhere.jsonl.*"question" and "answer".*#### N'):
        load_questions(tmp_path / "nowhere.jsonl")
    with pytest.raises(QuestionsError, match=r"accuracy\.questions_path is not set: gsm8k needs"):
        load_protocol(plan(dataset="gsm8k", questions_path=None))
    with pytest.raises(QuestionsError, match=r"accuracy\.shots_path"):
        load_protocol(plan(dataset="gsm8k", shots_path=None))


@pytest.mark.parametrize(
    "line", ["{", '{"question": "a"}', '{"question": "a", "answer": "7"}', "[]"]
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "a", "answer": "#### 7"}\n' + line + "\n")
    with pytest.raises(QuestionsError, match=r"q\.jsonl:2: "):
        load_questions(path)


def test_too_few_questions_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "a", "answer": "#### 7"}\n')
    with pytest.raises(QuestionsError, match="1 questions, 3 wanted"):
        load_questions(path, 3)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_every_word_problem_has_the_answer_its_expression_has(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == (40 if path == FILES[0] else 5)
    for line in lines:
        assert re.fullmatch(r"[\d+\-*/() ]+", line["expr"])
        value = eval(line["expr"], {"__builtins__": {}})
        assert value == int(line["answer"].rsplit("#### ", 1)[1]), line
        assert last_number(line["answer"]) == value
        steps = re.findall(r"(\d+(?: [-+*/] \d+)+) = (\d+)", line["answer"])
        assert steps, line
        for left, right in steps:
            assert eval(left, {"__builtins__": {}}) == int(right), line
        numbers = set(re.findall(r"\d+", line["expr"]))
        words = {"2", "3", "4", "5", "6", "7", "9"}
        assert numbers - words <= set(re.findall(r"\d+", line["question"] + line["answer"]))


def test_no_word_problem_is_there_twice() -> None:
    questions = [q.question for path in FILES for q in load_questions(path)]
    assert len(set(questions)) == 45


def test_a_pass_over_a_rehearsal_worker_is_labelled_and_complete(tmp_path: Path) -> None:
    with worker(tmp_path / "a.log", "127.0.0.7", "--role", "aggregated") as url:
        got = asyncio.run(run_repeat(plan(), 0, url, MODEL, KEY, "run", True))
    assert got.rehearsal
    assert not got.comparable
    assert (got.answered, got.transport_failures) == (10, 0)
    assert got.output_tokens > 0


@pytest.mark.skipif("GSM8K_DIR" not in os.environ, reason="GSM8K_DIR names no folder with GSM8K")
def test_the_real_gsm8k_loads_whole_and_every_reference_answer_is_found() -> None:
    folder = os.environ["GSM8K_DIR"]
    questions, prefix = load_protocol(
        plan(
            dataset="gsm8k",
            questions_path=f"{folder}/test.jsonl",
            shots_path=f"{folder}/train.jsonl",
            num_questions=None,
            num_shots=5,
        )
    )
    assert len(questions) == 1319
    assert prefix.count("Question: ") == prefix.count("Answer: ") == 5
    for question in questions:
        stated = question.answer.rsplit("####", 1)[1]
        assert last_number(question.answer) is not None
        assert last_number(question.answer) == last_number(stated)


@pytest.mark.parametrize(
    ("answer", "label"),
    [("so\n#### 1,234", 1234), ("#### $18", 18), ("#### -3", -3), ("#### 5,60", 560), ("18", None)],
)
def test_a_data_sets_own_answer_is_read_as_it_stands(answer: str, label: int | None) -> None:
    assert label_number(answer) == label
