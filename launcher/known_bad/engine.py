"""One engine's own settings: scheduler, API servers, graphs, logging."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.engines.vllm import CAPTURE_FLAG, capture_size, default_capture_limit
from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import RoleView, View

PADDED = ("mtp", "eagle", "eagle3", "draft_model", "dspark", "dflash", "ngram_gpu")
"""Speculation methods that asynchronous scheduling works with on the V1 model runner."""


def _servers(role: RoleView) -> int:
    return role.number("api-server-count") or 0


def _headless_servers(view: View) -> Iterator[str]:
    for role in view.headless():
        if _servers(role) > 0:
            yield (
                f"{role.at('api-server-count')}: the nodes of {role.name} that do not lead are "
                "headless and refuse it"
            )


def _many_servers(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if _servers(role) > 1:
            yield f"{role.at('api-server-count')}: more than one disables the engines' stats lines"
            return


def _stats_off(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if role.flags.get("disable-log-stats") is True and role.shape.dp > 1:
            yield (
                f"{role.at('disable-log-stats')}: hides the engine labels by which the router "
                f"counts the {role.shape.dp} ranks of an endpoint, so one of them gets all requests"
            )
            return


def _interval(view: View) -> Iterator[str]:
    for role in view.roles.values():
        step = role.number("stream-interval")
        if step is not None and step > 1 and role.name != "prefill":
            yield (
                f"{role.at('stream-interval')}: tokens leave {step} at a time, so ITL figures are "
                "of such bunches (TTFT and TPOT are not touched)"
            )
            return


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


def _eager(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if view.cuda and role.flags.get("enforce-eager") is True:
            yield f"{role.at('enforce-eager')}: no CUDA graphs and no compilation"
            return


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


def _ready_timeout(view: View) -> Iterator[str]:
    name, start = "VLLM_ENGINE_READY_TIMEOUT_S", view.config.cluster.budgets.start_s
    value = view.env.get(name, "")
    if value.isdigit() and int(value) < start:
        yield (
            f"{view.at_env(name)}: the engine gives up before cluster.budgets.start_s={start:g} is "
            "over, however well the load goes"
        )


def _quiet(view: View) -> Iterator[str]:
    name = "VLLM_LOGGING_LEVEL"
    if view.env.get(name, "INFO").upper() in ("WARNING", "ERROR", "CRITICAL"):
        yield f"{view.at_env(name)}: hides the start-up lines from which causes are told"
    if view.env.get("VLLM_CONFIGURE_LOGGING") == "0":
        yield f"{view.at_env('VLLM_CONFIGURE_LOGGING')}: hides the lines causes are told from"


def _online(view: View) -> Iterator[str]:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if view.env.get(name, "1").lower() in ("0", "false", "no", "off", ""):
            yield f"{view.at_env(name)}: every process may ask the hub while it starts"


def _abort_timeout(view: View) -> Iterator[str]:
    name = "VLLM_NIXL_ABORT_REQUEST_TIMEOUT"
    if name in view.env:
        yield f"{view.at_env(name)}: gone since 0.22.0, nothing reads it"


COMPILE_CACHES = (
    *("TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "TORCHINDUCTOR_CACHE_DIR"),
    "DG_JIT_CACHE_DIR",
)
"""Folders that engines compile into; DeepGEMM's lies below VLLM_CACHE_ROOT unless it is set."""


def _shared_caches(view: View) -> Iterator[str]:
    nodes = [process.node for process in view.placement.processes]
    if len(nodes) == len(set(nodes)):
        return
    for name in COMPILE_CACHES:
        if name in view.env:
            yield f"{view.at_env(name)}: several processes of a node would compile into one folder"


ENTRIES = (
    KnownBad(
        name="headless-with-api-servers",
        level="error",
        check=_headless_servers,
        remedy="leave it out, or use load_balancing=hybrid",
        reference="vLLM 0.33.0 entrypoints/cli/serve.py:69",
        example=("flags=article_stats", "topology.roles.decode.load_balancing=internal"),
        near_miss=("flags=article_stats",),
    ),
    KnownBad(
        name="several-api-servers",
        level="warning",
        check=_many_servers,
        remedy="set 1 (flags=article_stats) where the lines are wanted; /metrics works either way",
        reference="vLLM 0.33.0 v1/metrics/loggers.py:1384",
        example=("+flags.all.api-server-count=4",),
        near_miss=("+flags.all.api-server-count=1",),
    ),
    KnownBad(
        name="stats-off-hides-ranks",
        level="error",
        check=_stats_off,
        remedy="leave it out",
        reference="vllm-router 0.1.17, DP discovery by /metrics",
        example=("+flags.all.disable-log-stats=true",),
        near_miss=("+flags.all.disable-log-stats=true", "topology=dp1_prefill1x1"),
    ),
    KnownBad(
        name="stream-interval-and-itl",
        level="warning",
        check=_interval,
        remedy="set flags.all.stream-interval=1 where ITL is to be reported",
        reference="vLLM 0.33.0 config/scheduler.py, stream_interval",
        example=("flags.all.stream-interval=100",),
        near_miss=("flags.all.stream-interval=1",),
    ),
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
        name="eager-on-gpu",
        level="warning",
        check=_eager,
        remedy="leave it out for measurements",
        reference="vLLM 0.33.0 config/vllm.py:1766",
        example=("+flags.all.enforce-eager=true",),
        near_miss=("+flags.all.enforce-eager=false",),
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
    KnownBad(
        name="ready-timeout-below-budget",
        level="warning",
        check=_ready_timeout,
        remedy="leave it out: the launcher sets it to the budget",
        reference="vllm#35547, vllm#28821",
        example=("+flags.env.VLLM_ENGINE_READY_TIMEOUT_S='600'",),
        near_miss=("+flags.env.VLLM_ENGINE_READY_TIMEOUT_S='3600'",),
    ),
    KnownBad(
        name="quiet-engine",
        level="warning",
        check=_quiet,
        remedy="leave it at INFO",
        reference="vLLM 0.33.0 envs.py, VLLM_LOGGING_LEVEL",
        example=("+flags.env.VLLM_LOGGING_LEVEL=ERROR",),
        near_miss=("+flags.env.VLLM_LOGGING_LEVEL=DEBUG",),
    ),
    KnownBad(
        name="hub-at-start",
        level="warning",
        check=_online,
        remedy="leave it out and stage model and tokenizer first",
        reference="huggingface_hub documentation, environment variables",
        example=("+flags.env.HF_HUB_OFFLINE='0'",),
        near_miss=("+flags.env.HF_HUB_OFFLINE='1'",),
    ),
    KnownBad(
        name="abort-timeout-gone",
        level="warning",
        since="0.22.0",
        check=_abort_timeout,
        remedy="use kv_connector_extra_config.kv_lease_duration (default 30 s)",
        reference="vLLM 0.22.0 envs.py (absent); .../nixl/base_scheduler.py:81",
        example=("+flags.env.VLLM_NIXL_ABORT_REQUEST_TIMEOUT='480'",),
        near_miss=("+flags.env.VLLM_NIXL_ABORT_REQUEST_TIMEOUT='480'", "engine.release=0.21.0"),
    ),
    KnownBad(
        name="shared-compile-cache",
        level="error",
        check=_shared_caches,
        remedy="remove it: every process gets a folder of its own under cluster.cache_dir",
        reference="vllm#24601, vllm#18851",
        example=("+flags.env.TRITON_CACHE_DIR=/scratch/triton",),
        near_miss=("cluster.cache_dir=/scratch",),
    ),
)
