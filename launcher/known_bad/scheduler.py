"""What an engine puts into one step: batches, sequences, cache blocks."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import View

PADDED = ("mtp", "eagle", "eagle3", "draft_model", "dspark", "dflash", "ngram_gpu")
"""Speculation methods that asynchronous scheduling works with on the V1 model runner."""


def _unchunked(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if role.flags.get("enable-chunked-prefill") is not False:
            continue
        longest = role.number("max-model-len") or view.facts.max_position
        batch = role.number("max-num-batched-tokens")
        if longest is not None and batch is not None and batch < longest:
            yield (
                f"{role.at('max-num-batched-tokens')}: without chunked prefill a batch must hold a "
                f"whole sequence of max-model-len {longest}"
            )


def _batch_below_seqs(view: View) -> Iterator[str]:
    for role in view.roles.values():
        batch, seqs = role.number("max-num-batched-tokens"), role.number("max-num-seqs")
        if batch is not None and seqs is not None and batch < seqs:
            yield f"{role.at('max-num-batched-tokens')}: less than max-num-seqs {seqs}"


def _active_above_seqs(view: View) -> Iterator[str]:
    for role in view.roles.values():
        active, seqs = role.number("max-num-active-seqs"), role.number("max-num-seqs")
        if active is not None and seqs is not None and active > seqs:
            yield f"{role.at('max-num-active-seqs')}: more than max-num-seqs {seqs}"


def _batch_default(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if view.cuda and "max-num-batched-tokens" not in role.flags:
            yield (
                f"{role.at('max-num-batched-tokens')}: the default on GPUs of 160 GiB and more is "
                "8192 before 0.28.0 and 16384 since"
            )


def _async_raises(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if role.flags.get("async-scheduling") is not True:
            continue
        method = role.nested("speculative-config", "method")
        if role.nested("speculative-config", "disable_padded_drafter_batch") is True:
            yield f"{role.at('async-scheduling')}: refused with disable_padded_drafter_batch"
        elif method is not None and method not in PADDED:
            yield f"{role.at('async-scheduling')}: refused with {method} speculation (V1 runner)"
        elif role.shape.pp > 1:
            yield f"{role.at('async-scheduling')}: refused with pp {role.shape.pp} (V1 runner)"


def _events_without_caching(view: View) -> Iterator[str]:
    for role in view.roles.values():
        on = role.nested("kv-events-config", "enable_kv_cache_events") is True
        if on and role.flags.get("enable-prefix-caching") is False:
            yield f"{role.at('kv-events-config')}: there are no events without prefix caching"
            return


def _blocks_overridden(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if "num-gpu-blocks-override" in role.flags:
            yield f"{role.at('num-gpu-blocks-override')}: capacity is then not the machine's"
            return


ENTRIES = (
    KnownBad(
        name="batch-below-model-length",
        level="error",
        check=_unchunked,
        remedy="raise it, lower max-model-len, or leave chunked prefill on",
        reference="vLLM 0.33.0 config/scheduler.py:317",
        example=("+flags.all.enable-chunked-prefill=false",),
        near_miss=("+flags.all.enable-chunked-prefill=false", "+flags.all.max-model-len=8192"),
    ),
    KnownBad(
        name="batch-below-sequences",
        level="error",
        check=_batch_below_seqs,
        remedy="raise it, or lower max-num-seqs",
        reference="vLLM 0.33.0 config/scheduler.py:331",
        example=("+flags.roles.decode.max-num-seqs=9000",),
        near_miss=("+flags.roles.decode.max-num-seqs=8192",),
    ),
    KnownBad(
        name="active-above-sequences",
        level="error",
        check=_active_above_seqs,
        remedy="lower it",
        reference="vLLM 0.33.0 config/scheduler.py:338",
        example=(
            "+flags.roles.decode.max-num-seqs=512",
            "+flags.roles.decode.max-num-active-seqs=600",
        ),
        near_miss=(
            "+flags.roles.decode.max-num-seqs=512",
            "+flags.roles.decode.max-num-active-seqs=512",
        ),
    ),
    KnownBad(
        name="batch-left-to-the-default",
        level="warning",
        check=_batch_default,
        remedy="set it per role, so that one config means one run",
        reference="vLLM 0.28.0 engine/arg_utils.py, default_max_num_batched_tokens",
        example=("flags.roles.decode.max-num-batched-tokens=null",),
        near_miss=("flags.roles.decode.max-num-batched-tokens=4096",),
    ),
    KnownBad(
        name="async-scheduling-refused",
        level="error",
        check=_async_raises,
        remedy="leave flags.all.async-scheduling out: the engine then decides",
        reference="vLLM 0.33.0 config/vllm.py:1656",
        example=("+flags.all.speculative-config={method:ngram,num_speculative_tokens:2}",),
        near_miss=("+flags.all.speculative-config={method:mtp,num_speculative_tokens:2}",),
    ),
    KnownBad(
        name="events-without-caching",
        level="warning",
        check=_events_without_caching,
        remedy="set flags.all.enable-prefix-caching=true, or leave the events out",
        reference="vLLM 0.33.0 config/vllm.py:2047",
        example=("+flags.all.kv-events-config={enable_kv_cache_events:true}",),
        near_miss=("+flags.all.kv-events-config={enable_kv_cache_events:false}",),
    ),
    KnownBad(
        name="blocks-overridden",
        level="warning",
        check=_blocks_overridden,
        remedy="leave it out for measurements",
        reference="vLLM 0.33.0 config/cache.py, num_gpu_blocks_override",
        example=("+flags.all.num-gpu-blocks-override=512",),
        near_miss=("flags.all.gpu-memory-utilization=0.9",),
    ),
)
