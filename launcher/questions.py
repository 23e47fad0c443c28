"""The accuracy's questions, counted and read here, since the job reads them on the allocation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from launcher.schema import AccuracyConfig

OWN = {"test": "word_problems.jsonl", "train": "word_problems_shots.jsonl"}
FORMAT = 'one JSON object a line with "question" and "answer", the answer ending in "#### N"'


def question_problems(accuracy: AccuracyConfig, code_dir: Path) -> Iterator[str]:
    """Too few questions or shots for what is asked, and lines that are none; missing files are
    told elsewhere."""
    folder = code_dir / "jobs" / "data"
    wanted = {"num_questions": accuracy.num_questions or 1, "num_shots": accuracy.num_shots}
    names = {"num_questions": OWN["test"], "num_shots": OWN["train"]}
    if accuracy.dataset == "gsm8k":
        if accuracy.data_dir is None:
            return
        folder = Path(accuracy.data_dir)
        names = {"num_questions": "test.jsonl", "num_shots": "train.jsonl"}
    for key, name in names.items():
        path = folder / name
        if wanted[key] and path.is_file():
            yield from _of_file(path, f"accuracy.{key}", wanted[key], key == "num_questions")


def _of_file(path: Path, key: str, wanted: int, whole: bool) -> Iterator[str]:
    """Problems of one file, of which all lines, or the first `wanted`, will be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        yield f"{key}: {path} cannot be read: {error}; needed: {FORMAT}"
        return
    filled = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if len(filled) < wanted:
        yield f"{key}={wanted}: {path} has {len(filled)}; allowed: up to {len(filled)}"
    for number, line in filled if whole else filled[:wanted]:
        if not _is_question(line):
            yield f"{key}: {path}, line {number} is no question; needed: {FORMAT}"
            return


def _is_question(line: str) -> bool:
    try:
        found = json.loads(line)
    except ValueError:
        return False
    whole = isinstance(found, dict) and "question" in found
    return whole and "####" in str(found.get("answer"))
