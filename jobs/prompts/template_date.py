"""The day that chat templates are told, where they ask for it (strftime_now).

Templates of Llama 3.1, gpt-oss or Mistral Small put the date into every prompt, so that the same
seed would give other bytes each day. Prompts made here all say one day: the one that Llama 3.1's
own template says where nobody tells it the date.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

FIXED = datetime(2024, 7, 26)
ASKS = "strftime_now"
DAYS = 366
"""Days tried to know whether every date has as many tokens: a leap year."""


def asks_for_date(template: Any) -> bool:
    """Whether a chat template, or one of several, puts the date into a prompt."""
    return ASKS in str(template)


def template_words(template: Any, day: datetime = FIXED) -> dict[str, Any]:
    """What a template is told beside the messages, so that it says that day; nothing where it does
    not ask (a tokenizer's own code need not know the word)."""
    return {ASKS: day.strftime} if asks_for_date(template) else {}


def all_days() -> Iterator[datetime]:
    """Every day of the leap year that the fixed day is in."""
    first = datetime(FIXED.year, 1, 1)
    return (first + timedelta(days=number) for number in range(DAYS))
