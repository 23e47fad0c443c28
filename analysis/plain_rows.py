"""The report's rows for a reader whose browser runs no scripts: a table and reasons, as HTML.

Mail programs and viewers of build artefacts often switch scripts off; the page then has to show
what was measured all the same. With scripts, browsers do not show this part.
"""

from __future__ import annotations

import html
from typing import Any

import pandas as pd

from analysis.metrics import BY_NAME
from analysis.safetext import printable
from analysis.tables import cells

MAX_ROWS = 100
"""The part is in every page, so that of many runs it must stay small beside the data."""


def plain_rows(data: dict[str, Any], frame: pd.DataFrame) -> str:
    """What stands in the page's <noscript>: the columns that its table begins with.

    `data` is what report_data made of `frame`.
    """
    shown = sorted((one for one in data["columns"] if one["place"] >= 0), key=_place)
    metrics = [BY_NAME[one["name"]] for one in shown]
    part = frame.head(MAX_ROWS)
    head = "".join(f"<th>{_text(m.label)}<small>{_text(m.unit)}</small></th>" for m in metrics)
    rows = zip(*(cells(part, metric) for metric in metrics), strict=True)
    kinds = ["text" if metric.kind == "text" else "number" for metric in metrics]
    body = "".join(f"<tr>{''.join(map(_cell, row, kinds))}</tr>" for row in rows)
    return (
        f'<p class="notice">{_text(_notice(len(frame)))}</p>'
        f'<div class="scroll"><table class="rows">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<ul>{''.join(map(_reason, data['reasons']))}</ul>"
    )


def _place(column: dict[str, Any]) -> int:
    return int(column["place"])


def _notice(count: int) -> str:
    which = f"the first {MAX_ROWS} of {count:,} points" if count > MAX_ROWS else "every point"
    return f"Scripts are switched off here: no plots, and the main columns of {which} only."


def _cell(text: str, kind: str) -> str:
    return f'<td class="{kind}">{_text(text)}</td>'


def _reason(one: dict[str, Any]) -> str:
    points = f"{one['rows']} point{'' if one['rows'] == 1 else 's'}"
    told = f"{one['verdict']}, {points}: {one['reason']}"
    return f"<li>{_text(told)}</li>"


def _text(text: str) -> str:
    return html.escape(printable(text))
