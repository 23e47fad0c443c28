"""What a record's own numbers, taken together, cannot be."""

from __future__ import annotations

from jobs.records import AccuracyRepeat, BenchPoint, RecordError

STATED_TOLERANCE = 1e-3


def check_point(point: BenchPoint, where: str) -> None:
    """RecordError when the record's own numbers cannot all be true."""
    for name, value in (("input", point.input_range), ("output", point.output_range)):
        whole = all(isinstance(end, int) and not isinstance(end, bool) for end in value)
        if len(value) != 2 or not whole or not 0 <= value[0] <= value[1]:
            raise RecordError(f"{where}: {name}_range: {value!r:.80}, expected [low, high]")
    if point.completed + point.failed > point.num_prompts:
        raise RecordError(
            f"{where}: {point.completed} completed + {point.failed} failed requests,"
            f" but only {point.num_prompts} were planned"
        )
    if point.completed and point.duration_s <= 0:
        raise RecordError(f"{where}: {point.completed} requests in {point.duration_s} s")
    if not point.completed and (point.total_output_tokens or point.total_input_tokens):
        raise RecordError(f"{where}: tokens counted, but no request completed")


def check_repeat(repeat: AccuracyRepeat, where: str) -> None:
    """RecordError when the record's own numbers cannot all be true."""
    parts = (repeat.correct + repeat.invalid, repeat.cut)
    if max(parts) > repeat.answered:
        raise RecordError(f"{where}: more right, invalid or cut answers than answers")
    if repeat.answered + repeat.transport_failures != repeat.questions:
        raise RecordError(
            f"{where}: {repeat.answered} answered + {repeat.transport_failures} transport failures"
            f" are not {repeat.questions} questions"
        )
    score = repeat.correct / repeat.answered if repeat.answered else None
    if score is not None and abs((repeat.accuracy or 0.0) - score) > STATED_TOLERANCE:
        raise RecordError(
            f"{where}: accuracy {repeat.accuracy} is not {repeat.correct} right"
            f" of {repeat.answered} answered"
        )
