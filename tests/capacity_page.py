"""Tables of the published shapes in docs/capacity.md: `python -m tests.capacity_page`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from launcher.capacity import GIB, MIB, Capacity, RoleCapacity, Spread
from launcher.engines import ENGINES
from launcher.plan import build_plan
from tests.compose import config_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "capacity.md"
BEGIN, END = "<!-- begin: written by python -m tests.capacity_page -->", "<!-- end -->"
VARIANTS = (
    ("fp8", "bfloat16"),
    ("fp8", "float32"),
    ("bfloat16", "bfloat16"),
    ("bfloat16", "float32"),
)
RESERVES = (6.0, 8.0, 10.0)


def tables() -> str:
    """The generated part of the page, markers included."""
    return "\n".join([BEGIN, "", *_shapes(), "", *_variants(), "", *_reserves(), "", END])


def _capacity(kv: str, state: str, reserve: float, topology: str) -> Capacity:
    config = config_of(f"topology={topology}")
    config.flags.all["kv-cache-dtype"] = kv
    config.flags.all["mamba-ssm-cache-dtype"] = state
    config.engine.memory_reserve_gib = reserve
    capacity = ENGINES["vllm"].capacity(build_plan(config))
    assert capacity is not None
    return capacity


def _role(capacity: Capacity, name: str) -> RoleCapacity:
    return next(role for role in capacity.roles if role.role == name)


def _head(*columns: str) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"


def _shapes() -> Iterator[str]:
    yield from _head(
        "topology",
        "role",
        "ranks",
        "weights, GiB",
        "KV pool, GiB",
        "block ids",
        "ids a request",
        "running on a rank",
        "on all ranks",
    )
    for count in (4, 5, 6, 7, 8):
        capacity = _capacity("fp8", "bfloat16", 8.0, f"dep8_prefill{count}x2")
        for role in capacity.roles:
            yield (
                f"| dep8_prefill{count}x2 | {role.role} | {role.ranks} | "
                f"{(role.weights_bytes or 0) / GIB:.1f} | {(role.pool_bytes or 0) / GIB:.1f} | "
                f"{role.blocks:,} | {_three(role.blocks_per_request, 2)} | "
                f"{_three(role.running_per_rank, 0)} | {_three(role.running, 0)} |"
            )


def _variants() -> Iterator[str]:
    yield from _head(
        "KV dtype",
        "state dtype",
        "block, tokens",
        "MiB an id",
        "prefill ids",
        "decode ids",
        "ids a request",
        "decode runs, all ranks",
        "MB moved a request",
    )
    for kv, state in VARIANTS:
        capacity = _capacity(kv, state, 8.0, "dep8_prefill6x2")
        prefill, decode = _role(capacity, "prefill"), _role(capacity, "decode")
        assert prefill.moved_bytes is not None
        yield (
            f"| {kv} | {state} | {decode.block_tokens:,} | "
            f"{(decode.block_bytes or 0) / MIB:.2f} | {prefill.blocks:,} | {decode.blocks:,} | "
            f"{_three(decode.blocks_per_request, 2)} | {_three(decode.running, 0)} | "
            f"{prefill.moved_bytes.mean / 1e6:,.0f} |"
        )


def _reserves() -> Iterator[str]:
    yield from _head(
        "kept for activations and graphs, GiB",
        "decode ids",
        "decode runs, all ranks",
        "4096 fit",
        "5120 fit",
    )
    for reserve in RESERVES:
        decode = _role(_capacity("fp8", "bfloat16", reserve, "dep8_prefill6x2"), "decode")
        assert decode.running is not None
        fits = ["yes" if decode.running.mean >= asked else "no" for asked in (4096, 5120)]
        yield (
            f"| {reserve:g} | {decode.blocks:,} | {_three(decode.running, 0)} | "
            f"{fits[0]} | {fits[1]} |"
        )


def _three(spread: Spread | None, digits: int) -> str:
    assert spread is not None
    return f"{spread.low:,.0f} / {spread.mean:,.{digits}f} / {spread.high:,.0f}"


def page_with(text: str) -> str:
    """The page with its generated part replaced."""
    before, rest = text.split(BEGIN, 1)
    return before + tables() + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text()))
    sys.exit(0)
