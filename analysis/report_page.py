"""The report as one file: template, style, script and data put together, nothing outside.

Data can reach the page as text only: the JSON block holds no "<", the script is allowed by its
hash alone (Content-Security-Policy), and it writes no HTML.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from string import Template
from typing import Any

import pandas as pd

from analysis.best import headlines
from analysis.plain_rows import plain_rows
from analysis.safetext import printable
from analysis.words import Verdict

SCRIPTS = (
    "data.js", "scale.js", "chart.js", "repeats.js", "figures.js", "strips.js", "startup.js",
    "table.js", "report.js",
)  # fmt: skip


def report_page(data: dict[str, Any], frame: pd.DataFrame, title: str, created: str) -> str:
    """The whole page."""
    script = "\n".join(_file(name) for name in SCRIPTS)
    style = _file("report.css")
    rehearsal = bool(data["rehearsal"])
    return Template(_file("report.html")).substitute(
        policy=html.escape(
            f"default-src 'none'; base-uri 'none'; form-action 'none'; "
            f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
        ),
        title=_text(f"{'REHEARSAL: ' if rehearsal else ''}{title}"),
        heading=_text(title),
        style=style,
        script=script,
        banner=_banner(data),
        rehearsal="rehearsal" if rehearsal else "measured",
        summary=_summary(frame, data, created),
        plain=plain_rows(data, frame),
        headlines="".join(_card(*card) for card in headlines(frame)),
        data=embed(data),
    )


def embed(data: Any) -> str:
    """JSON for a script element: no "<", ">" or "&" in it, and ASCII only."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _banner(data: dict[str, Any]) -> str:
    if not data["rehearsal"]:
        return ""
    return f'<p class="banner" role="alert">{_text(data["rehearsal"])}</p>'


def _summary(frame: pd.DataFrame, data: dict[str, Any], created: str) -> str:
    """What the page shows, in one sentence, and how many rows have which verdict."""
    counts = frame["verdict"].value_counts()
    words = [verdict.value for verdict in Verdict if counts.get(verdict.value)]
    chips = "".join(f'<li class="chip {word.lower()}">{counts[word]} {word}</li>' for word in words)
    left = len(frame) - sum(data["drawn"])
    runs = _many(data["runs"], "run")
    told = f"{runs}, {_many(len(frame), 'point')}, written {created}."
    if left:
        told += f" Of these, {left} in the table only: may not be drawn or compared."
    lost = data["unfinished"]
    notice = f'<p class="notice"><a href="#why-section">{_text(lost)}</a></p>' if lost else ""
    return f'<p>{_text(told)}</p>{notice}<ul class="chips" aria-label="verdicts">{chips}</ul>'


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _card(label: str, figure: str, where: str) -> str:
    return (
        f'<div class="card"><p class="label">{_text(label)}</p>'
        f'<p class="figure">{_text(figure)}</p><p class="where">{_text(where)}</p></div>'
    )


def _text(text: str) -> str:
    return html.escape(printable(text))


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _file(name: str) -> str:
    return resources.files("analysis").joinpath("web", name).read_text(encoding="utf-8")
