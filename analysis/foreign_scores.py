"""Scores that other evaluators worked out, as rows: vLLM's gsm8k_eval and lm-eval."""

from __future__ import annotations

from typing import Any

from analysis.errors import BrokenFileError
from analysis.intervals import wilson
from analysis.thresholds import ACCURACY_INVALID
from analysis.told import count, number
from analysis.words import Verdict

Row = dict[str, Any]


def lm_eval(data: Row, where: str) -> Row:
    """lm-evaluation-harness: flexible-extract is the last number, strict-match the one after ####;
    both are its own filters, not vLLM's."""
    told = data["results"].get("gsm8k")
    if not isinstance(told, dict):
        raise BrokenFileError(f"{where}: lm-eval results without gsm8k")
    counts = data.get("n-samples")
    samples = counts.get("gsm8k") if isinstance(counts, dict) else None
    questions = count(samples.get("effective")) if isinstance(samples, dict) else None
    score = _share(told.get("exact_match,flexible-extract"), where)
    row = _scored("lm-eval", "gsm8k (lm-eval)", score, questions)
    row["accuracy_strict"] = _share(told.get("exact_match,strict-match"), where)
    reason = "lm-eval's extraction and prompts: not comparable with vLLM's evaluator"
    return row | {"verdict": Verdict.UNPROVEN.value, "reasons": reason}


def _scored(client: str, dataset: str, score: float | None, questions: int | None) -> Row:
    """A share of right answers with its interval."""
    ends = wilson(score * questions, questions) if score is not None and questions else None
    return {
        "client": client, "accuracy_dataset": dataset, "accuracy": score,
        "accuracy_low": ends[0] if ends else None, "accuracy_high": ends[1] if ends else None,
        "accuracy_answers": questions, "accuracy_repeats": 1,
    }  # fmt: skip


def _share(value: Any, where: str) -> float | None:
    """A number from 0 to 1; BrokenFileError for more, which is per cent or no share at all."""
    found = number(value)
    if found is not None and found > 1:
        raise BrokenFileError(f"{where}: {found:g} is no share; expected 0 to 1, not per cent")
    return found


def gsm8k(data: Row, where: str) -> Row:
    """vLLM's gsm8k_eval counts a request that never got an answer as one without a number: a high
    invalid rate may be either, and the score is none."""
    score, questions = _share(data.get("accuracy"), where), count(data.get("num_questions"))
    invalid = _share(data.get("invalid_rate"), where)
    row = _scored("gsm8k_eval", "gsm8k", score, questions) | {"accuracy_invalid_rate": invalid}
    if score is None or questions is None:
        return row | {"verdict": Verdict.INVALID.value, "reasons": "no score, or of no questions"}
    if invalid is not None and invalid > ACCURACY_INVALID.value:
        reason = (
            f"{invalid:.0%} of the answers are invalid without a reason: requests that failed are"
            " counted so too; run it again and count them apart"
        )
        return row | {"verdict": Verdict.INVALID.value, "reasons": reason}
    reason = "accuracy alone: no point was measured"
    return row | {"verdict": Verdict.UNPROVEN.value, "reasons": reason}
