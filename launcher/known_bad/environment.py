"""Variables of an engine's environment that defeat what the launcher relies on."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import View

COMPILE_CACHES = (
    *("TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "TORCHINDUCTOR_CACHE_DIR"),
    "DG_JIT_CACHE_DIR",
)
"""Folders that engines compile into; DeepGEMM's lies below VLLM_CACHE_ROOT unless it is set."""


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


def _shared_caches(view: View) -> Iterator[str]:
    nodes = [process.node for process in view.placement.processes]
    if len(nodes) == len(set(nodes)):
        return
    for name in COMPILE_CACHES:
        if name in view.env:
            yield f"{view.at_env(name)}: several processes of a node would compile into one folder"


ENTRIES = (
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
