"""The number in an answer: vLLM's evaluator's own extraction, and a stricter one beside it.

Pure and without dependencies, so that kept answers can be scored again.
"""

from __future__ import annotations

import ast
import re
from decimal import Decimal

MARKER = r"(?:####|answer is:?)[\s*_]*"
MONEY = "$\u20ac\u00a3\u00a5"
MINUS = "-\u2212\u2013"
SPACES = "\u00a0\u2009\u202f"
"""What separates thousands in print, beside the comma: no-break, thin and narrow spaces."""
NUMBER = rf"\d{{1,3}}(?:[,{SPACES}]\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
STRICT = re.compile(
    rf"{MARKER}(?P<sign>[{MINUS}+]?)\s?[{MONEY}]?\s?(?P<inner>[{MINUS}]?)(?P<number>{NUMBER})(?P<rest>.{{0,4}})",
    re.IGNORECASE | re.ASCII,
)
GOES_ON = re.compile(
    rf"[eE][-+]?\d|[.,_:/^]\d|\s?[-+*/^=\u00d7\u00f7{MINUS}]\s?[{MONEY}]?\s?[\d(]|[{SPACES} ]\d",
    re.ASCII,
)
"""What follows a number that is only the beginning of one: 3/4, 1e3, 10:30, 5 + 6, 1 234."""
LABEL = re.compile(r"####\s*\$?\s*(-?\$?\d[\d,]*(?:\.\d+)?)", re.ASCII)


def last_number(text: str) -> int | None:
    """vLLM's extraction (tests/evals/gsm8k): the last run of digits after removing commas.

    Sign and decimals are not seen ("18.00" is 0), and a number with a leading zero ("05") is no
    number, as there.
    """
    found = re.findall(r"\d+", text.replace(",", ""))
    if not found:
        return None
    try:
        return int(ast.literal_eval(found[-1]))
    except (SyntaxError, ValueError):
        return None


def strict_number(text: str) -> Decimal | None:
    """The number after the first "####" or "answer is", sign and decimals kept.

    None without a marker, and where the number is part of something else (a fraction, a sum, a
    range, a time of day): half of it would be another number.
    """
    found = STRICT.search(text)
    if found is None or GOES_ON.match(found["rest"]):
        return None
    value = Decimal(re.sub(rf"[,{SPACES}]", "", found["number"]))
    signs = (found["sign"], found["inner"])
    return -value if any(sign and sign in MINUS for sign in signs) else value


def label_number(text: str) -> Decimal | None:
    """The right answer of a solved question ("#### 1,234"), as the data set has it."""
    found = LABEL.search(text)
    return Decimal(found[1].replace(",", "").replace("$", "")) if found else None
