"""Answers kept one by one: a line a question, as evaluators write them, scored by our extraction.

A question that never got an answer (`error`) is not scored; neither is one that ended at the token
limit before there was any text a wrong answer of the model: both are told, and void the score.
Known: `label`, `target` or `doc.answer` beside `text`, `content`, `response`, or lm-eval's `resps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from analysis.intervals import wilson
from analysis.thresholds import ACCURACY_CUT
from analysis.words import Verdict
from jobs.extraction import label_number, last_number, strict_number

LABELS = ("label", "target", "answer", "expected")
TEXTS = ("text", "content", "response", "output", "resps")
Row = dict[str, Any]


def is_answer(data: Row) -> bool:
    """Whether the object is one question with its answer (`content` may be null)."""
    return _label(data) is not None and any(name in data for name in TEXTS)


def row_of_answers(answers: Sequence[Row], path: Path) -> Row:
    """All of a file's answers as one row of the table."""
    answers = _each_once(answers)
    lost = [each for each in answers if each.get("error")]
    told = [each for each in answers if not each.get("error")]
    texts = [_text(each) for each in told]
    labels = [_label(each) for each in told]
    cut = [each.get("finish_reason") == "length" for each in told]
    numbers = [last_number(text) for text in texts]
    right = [n is not None and n == label for n, label in zip(numbers, labels, strict=True)]
    strict = sum(
        label is not None and strict_number(text) == label
        for text, label in zip(texts, labels, strict=True)
    )
    finished = [ok for ok, short in zip(right, cut, strict=True) if not short]
    count = len(told)
    ends = wilson(sum(right), count)
    row: Row = {
        "run": f"{path.parent.name}/{path.name}", "path": str(path), "outcome": "foreign",
        "notes": f"of all {len(answers)} questions {sum(right) / len(answers):.4f}; of the"
        f" {len(finished)} finished answers {_of(sum(finished), len(finished))}",
        "client": "answers", "accuracy_dataset": "gsm8k (answers)", "accuracy_repeats": 1,
        "accuracy": sum(right) / count if count else None,
        "accuracy_low": ends[0] if ends else None, "accuracy_high": ends[1] if ends else None,
        "accuracy_answers": count, "accuracy_transport_failures": len(lost),
        "accuracy_strict": strict / count if count else None,
        "accuracy_invalid_rate": sum(n is None for n in numbers) / count if count else None,
        "accuracy_cut_rate": sum(cut) / count if count else None,
    }  # fmt: skip
    reasons = []
    if lost:
        reasons.append(f"{len(lost)} of {len(answers)} questions never got an answer, run it again")
    if count and sum(cut) > ACCURACY_CUT.value * count:
        reasons.append(
            f"{sum(cut)} of {count} answers ended at the token limit (finish reason length): allow"
            " more tokens, or switch thinking off"
        )
    verdict = Verdict.INVALID if reasons or not count else Verdict.UNPROVEN
    told_why = "; ".join(reasons) or "accuracy alone: no point was measured"
    return row | {"verdict": verdict.value, "reasons": told_why}


def _each_once(answers: Sequence[Row]) -> list[Row]:
    """lm-eval writes a line a question and filter; what was said is the same in each."""
    by_question = {each.get("doc_id", place): each for place, each in enumerate(answers)}
    filtered = all("doc_id" in each and "filter" in each for each in answers)
    return list(by_question.values()) if filtered else list(answers)


def _of(part: int, whole: int) -> str:
    return f"{part / whole:.4f}" if whole else "none"


def _text(answer: Row) -> str:
    """What was said; lm-eval nests it in lists."""
    found = next((answer[name] for name in TEXTS if answer.get(name)), "")
    while isinstance(found, list):
        found = found[0] if found else ""
    return found if isinstance(found, str) else ""


def _label(answer: Row) -> Decimal | None:
    """The right number: one as it stands, or that of a solved answer ("#### 18")."""
    told = next((answer[name] for name in LABELS if answer.get(name) is not None), None)
    if isinstance(told, str) and "####" in told:
        return label_number(told)
    if isinstance(told, bool) or not isinstance(told, int | float | str):
        return None
    try:
        found = Decimal(str(told).replace(",", "").strip().removeprefix("$"))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None
