"""What an engine compiles and captures, and with which kernels."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.engines.vllm import CAPTURE_FLAG, capture_size, default_capture_limit
from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import View


def _eager(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if view.cuda and role.flags.get("enforce-eager") is True:
            yield f"{role.at('enforce-eager')}: no CUDA graphs and no compilation"
            return


def _captured_twice(view: View) -> Iterator[str]:
    for role in view.roles.values():
        for flag in (CAPTURE_FLAG, "cudagraph-capture-sizes"):
            set_by_rule = flag == CAPTURE_FLAG and role.name == "decode" and capture_size(view.plan)
            inside = role.nested("compilation-config", flag)
            if inside is not None and (flag in role.flags or set_by_rule):
                yield f"{role.at('compilation-config')}: {flag} is given as a flag as well"


def _backend_twice(view: View) -> Iterator[str]:
    for role in view.roles.values():
        inside = role.nested("attention-config", "backend")
        if inside is not None and "attention-backend" in role.flags:
            yield f"{role.at('attention-backend')}: attention-config names one as well"


def _captured_too_few(view: View) -> Iterator[str]:
    role = view.roles.get("decode") or view.roles.get("aggregated")
    if role is None or not view.cuda or role.flags.get("enforce-eager") is True:
        return
    ranks = view.plan.role_ranks(role.name)
    limit = role.number(CAPTURE_FLAG) or capture_size(view.plan)
    limit = limit or default_capture_limit(view.config.engine.release)
    running = -(-view.top_concurrency // ranks)
    if limit < running and role.nested("compilation-config", CAPTURE_FLAG) is None:
        yield (
            f"{role.at(CAPTURE_FLAG, role.flags.get(CAPTURE_FLAG, 'default'))}: graphs are "
            f"captured up to {limit} requests, and concurrency {view.top_concurrency} over {ranks} "
            f"ranks is {running}"
        )


ENTRIES = (
    KnownBad(
        name="eager-on-gpu",
        level="warning",
        check=_eager,
        remedy="leave it out for measurements",
        reference="vLLM 0.33.0 config/vllm.py:1766",
        example=("+flags.all.enforce-eager=true",),
        near_miss=("+flags.all.enforce-eager=false",),
    ),
    KnownBad(
        name="capture-size-twice",
        level="error",
        check=_captured_twice,
        remedy="give it once",
        reference="vLLM 0.33.0 engine/arg_utils.py:2836",
        example=(
            "+flags.roles.decode.max-cudagraph-capture-size=768",
            "+flags.roles.decode.compilation-config={max_cudagraph_capture_size:768}",
        ),
        near_miss=("+flags.roles.decode.compilation-config={max_cudagraph_capture_size:768}",),
    ),
    KnownBad(
        name="attention-backend-twice",
        level="error",
        check=_backend_twice,
        remedy="give it once",
        reference="vLLM 0.33.0 engine/arg_utils.py:2730",
        example=(
            "+flags.all.attention-backend=FLASHINFER",
            "+flags.all.attention-config={backend:FLASHINFER}",
        ),
        near_miss=("+flags.all.attention-config={backend:FLASHINFER}",),
    ),
    KnownBad(
        name="capture-below-concurrency",
        level="warning",
        check=_captured_too_few,
        remedy="raise it to concurrency / ranks + 128, or set flags.capture_rule=true",
        reference="NVIDIA/srt-slurm-recipes 8b088c0, *-cc5120.yaml; vLLM blog 2026-08-06",
        example=("+flags.roles.decode.max-cudagraph-capture-size=512",),
        near_miss=(
            "+flags.roles.decode.max-cudagraph-capture-size=512",
            "workload.concurrency=[4096]",
        ),
    ),
)
