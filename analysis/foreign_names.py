"""What other tools write into the names of their files: GPUs, lengths, and who wrote them.

sa-bench: results_concurrency_C_gpus_T_ctx_P_gen_D.json in a folder sa-bench_isl_I_osl_O.
InferenceX: <model>_8k1k_<precision>_<engine>_tp8-ep1-dpafalse_disagg-false_..._<runner>.json, and
of its runs over several nodes concurrency_C_req_rate_inf_gpus_T_ctx_P_gen_D.json.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GPUS = re.compile(r"gpus_(\d+)(?:_ctx_(\d+)_gen_(\d+))?")
ONE_NODE = re.compile(r"_tp(\d+)-ep\d+-dpa(?:true|false)_disagg-false(?:_|$)")
"""Of an aggregated InferenceX run: its GPUs are those of the tensor parallelism."""
LENGTHS = re.compile(r"isl_?(\d+)_?osl_?(\d+)")
KILO = re.compile(r"(?:^|_)(\d{1,4})k(\d{1,4})k(?:_|$)")
"""8k1k, in units of 1,024 tokens."""
INFERENCEX = re.compile(r"_disagg-(?:true|false)(?:_|$)|^concurrency_\d+_req_rate_")


@dataclass(frozen=True, kw_only=True)
class Named:
    """What the file's name and folder tell; None where they do not."""

    gpus: int | None
    prefill: int | None
    decode: int | None
    isl: int | None
    osl: int | None


def named_by(path: Path) -> Named:
    """Everything a result's path says of it."""
    gpus, alone = GPUS.search(path.name), ONE_NODE.search(path.stem)
    numbers = [int(n) if n else None for n in (gpus.groups() if gpus else (None, None, None))]
    lengths, kilo = LENGTHS.search(str(path.absolute())), KILO.search(path.stem)
    isl = osl = None
    if lengths:
        isl, osl = int(lengths[1]), int(lengths[2])
    elif kilo:
        isl, osl = 1024 * int(kilo[1]), 1024 * int(kilo[2])
    return Named(
        gpus=numbers[0] or (int(alone[1]) if alone else None),
        prefill=numbers[1],
        decode=numbers[2],
        isl=isl,
        osl=osl,
    )


def of_inferencex(path: Path) -> bool:
    """Whether InferenceX names its files so."""
    return INFERENCEX.search(path.stem) is not None
