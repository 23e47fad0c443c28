"""The records of all processes of one measurement, as one table in the order of the requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jobs.clients.request_log import REAL, WHOLE
from jobs.errors import JobError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Columns of equal length, one row a request, by request number; times as in RequestLog.

    `chunk_starts` has one entry more: row i's chunks are chunk_us[starts[i]:starts[i + 1]]; the
    same with `token_starts` and `chunk_tokens` (no tokens where the server did not tell them).
    """

    columns: dict[str, Any]
    kinds: tuple[str, ...]
    """Failures by code; code 0 is a good request."""
    samples: dict[str, str]
    process: npt.NDArray[np.int16]
    chunk_us: npt.NDArray[np.uint32]
    chunk_starts: npt.NDArray[np.int64]
    chunk_tokens: npt.NDArray[np.uint32]
    token_starts: npt.NDArray[np.int64]
    lags_s: tuple[Floats, ...]
    shares: tuple[float, ...]
    peak_shares: tuple[float, ...]
    backlogs: tuple[int, ...]
    cpu_s: tuple[float, ...]
    begun_s: float
    """The moment at which all processes began."""

    @property
    def good(self) -> npt.NDArray[np.bool_]:
        """Which requests count."""
        return np.asarray(self.columns["kind"] == 0)

    def errors(self) -> dict[str, int]:
        """Failed requests by kind."""
        codes = Counter(self.columns["kind"].tolist())
        return {self.kinds[code]: count for code, count in codes.most_common() if code}


def read_all(outs: Sequence[Path]) -> Measured:
    """What the processes wrote; JobError when they did not share the requests out."""
    parts = [dict(np.load(path, allow_pickle=False)) for path in outs]
    kinds = _same_codes(parts)
    columns = {name: np.concatenate([p[name] for p in parts]) for name in (*WHOLE, *REAL)}
    process = np.concatenate([np.full(len(p["index"]), n, np.int16) for n, p in enumerate(parts)])
    order = np.argsort(columns["index"], kind="stable")
    if len(np.unique(columns["index"])) != len(order):
        raise JobError("the client's processes sent some request twice: its figures are not kept")
    chunk_us, chunk_starts = _reordered(parts, "chunk_us", columns["chunks"], order)
    chunk_tokens, token_starts = _reordered(parts, "chunk_tokens", columns["counted"], order)
    return Measured(
        columns={name: values[order] for name, values in columns.items()},
        kinds=kinds,
        samples={str(k): str(v) for p in parts for k, v in p["samples"]},
        process=process[order],
        chunk_us=chunk_us,
        chunk_starts=chunk_starts,
        chunk_tokens=chunk_tokens,
        token_starts=token_starts,
        lags_s=tuple(p["lags"].astype(np.float64) for p in parts),
        shares=tuple(float(p["load"][0]) for p in parts),
        peak_shares=tuple(float(p["load"][1]) for p in parts),
        backlogs=tuple(int(p["load"][2]) for p in parts),
        cpu_s=tuple(float(p["load"][4]) for p in parts),
        begun_s=min(float(p["load"][3]) for p in parts),
    )


def _same_codes(parts: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Gives every kind the same code in all parts."""
    kinds = ["", *sorted({str(kind) for part in parts for kind in part["kinds"]} - {""})]
    for part in parts:
        codes = np.array([kinds.index(str(kind)) for kind in part["kinds"]], dtype=np.int64)
        part["kind"] = codes[part["kind"]]
    return tuple(kinds)


def _reordered(
    parts: Sequence[dict[str, Any]], name: str, counts: Any, order: Any
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Lists of all parts, put into the rows' order; and where each begins."""
    flat = np.concatenate([part.pop(name) for part in parts])
    starts = np.concatenate([[0], np.cumsum(counts)])
    new_starts = np.concatenate([[0], np.cumsum(counts[order])])
    if len(parts) == 1 and np.array_equal(order, np.arange(len(order))):
        return flat, new_starts
    out = np.empty_like(flat)
    for row, old in enumerate(order.tolist()):
        out[new_starts[row] : new_starts[row + 1]] = flat[starts[old] : starts[old + 1]]
    return out, new_starts
