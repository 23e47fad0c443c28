"""The per-request records of one point as a Parquet file: requests/<point>.parquet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.clients.merged import Measured
from jobs.targets import check_target


def write_requests(path: Path, measured: Measured, prompts: Any) -> None:
    """One row a request, in the order of the prompt file; columns in docs/run-directory.md.

    `prompts` has prompt_tokens, output_tokens and warmup of a prompt file. Written aside and
    renamed.
    """
    check_target(path)
    columns = measured.columns
    index = columns["index"]
    kinds = np.array(measured.kinds, dtype=object)
    values: dict[str, Any] = {
        "request": index - prompts.warmup,
        "process": measured.process,
        "due_s": columns["due_s"] - measured.begun_s,
        "sent_s": columns["sent_s"] - measured.begun_s,
        "first_chunk_s": _or_none(columns["first_s"] - measured.begun_s),
        "last_chunk_s": _or_none(columns["last_s"] - measured.begun_s),
        "end_s": columns["end_s"] - measured.begun_s,
        "status": columns["status"].astype(np.int16),
        "error": pa.array(kinds[columns["kind"]], pa.string()).dictionary_encode(),
        "prompt_tokens": prompts.prompt_tokens[index],
        "server_prompt_tokens": _told(columns["server_prompt_tokens"]),
        "asked_tokens": prompts.output_tokens[index],
        "output_tokens": _told(columns["output_tokens"]),
        "first_chunk_late_s": _or_none(columns["late_s"]),
        "chunk_us": _lists(measured.chunk_starts, measured.chunk_us),
        "chunk_tokens": _lists(measured.token_starts, measured.chunk_tokens),
    }
    about = {b"begun_monotonic_s": repr(measured.begun_s).encode()}
    table = pa.table(values).replace_schema_metadata(about)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    pq.write_table(table, aside, compression="zstd")
    aside.chmod(0o600)
    aside.replace(path)


def _or_none(values: npt.NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def _told(values: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(values.astype(np.int32), mask=values < 0)


def _lists(starts: npt.NDArray[np.int64], values: npt.NDArray[np.uint32]) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(starts, pa.int64()), pa.array(values))
