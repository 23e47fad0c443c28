"""Addresses, interfaces, NVLink over nodes, and the router's own switches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import View

USAGE = 'vLLM docs/features/nixl_connector_usage.md, "For NVIDIA GB-series GPUs"'
MNNVL = "UCX_CUDA_IPC_ENABLE_MNNVL"
YES = ("y", "yes", "1", "on", "true")
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES", "TP_SOCKET_IFNAME")


def _mnnvl(view: View) -> bool:
    return view.env.get(MNNVL, "n").lower() in YES


def _cumem(view: View) -> bool:
    return all(role.flags.get("enable-cumem-allocator") is True for role in view.roles.values())


def _ipc_forbidden(view: View) -> Iterator[str]:
    listed = view.env.get("UCX_TLS", "all").lower()
    names = [name.strip() for name in listed.lstrip("^").split(",")]
    ipc = any(name in ("cuda_ipc", "cuda", "all") for name in names)
    if _mnnvl(view) and ipc == listed.startswith("^"):
        yield f"{view.at_env('UCX_TLS')}: leaves out cuda_ipc, which {MNNVL} is about"


def _mnnvl_alone(view: View) -> Iterator[str]:
    if view.disaggregated and view.cuda and _mnnvl(view) and not _cumem(view):
        yield (
            f"{view.at_env(MNNVL)}: without enable-cumem-allocator on both roles the KV cache has "
            "no fabric handle, and transfers silently take RDMA or TCP"
        )


def _cumem_alone(view: View) -> Iterator[str]:
    if view.disaggregated and view.cuda and _cumem(view) and not _mnnvl(view):
        role = view.roles["decode"]
        yield (
            f"{role.at('enable-cumem-allocator')}: without {MNNVL}=y transfers between nodes "
            "silently take RDMA or TCP"
        )


def _gloo_exclusion(view: View) -> Iterator[str]:
    for name in view.env.get("GLOO_SOCKET_IFNAME", "").split(","):
        if not re.fullmatch(r"[\w.:@-]*", name):
            yield (
                f"{view.at_env('GLOO_SOCKET_IFNAME')}: Gloo takes device names only (^ and = are "
                "NCCL's, and blanks count)"
            )
            return


def _devices(value: str) -> list[str]:
    """The devices that a list names, "" for one that leaves devices out (NCCL's ^)."""
    if value.startswith("^"):
        return []
    return [name.strip().partition(":")[0] for name in value.lstrip("=").split(",")]


def _loopback(view: View) -> Iterator[str]:
    if not view.slurm or view.placement.nodes < 2:
        return
    for name in INTERFACES:
        if any(device in ("lo", "lo0") for device in _devices(view.env.get(name, ""))):
            yield (
                f"{view.at_env(name)}: the loopback device does not reach the other "
                f"{view.placement.nodes - 1} nodes"
            )


def _no_interface(view: View) -> Iterator[str]:
    if view.slurm and not view.env.get("GLOO_SOCKET_IFNAME"):
        for role in view.spread():
            yield (
                f"{view.at_env('GLOO_SOCKET_IFNAME', 'cluster')}: an endpoint of "
                f"{role.name} covers several nodes, and Gloo takes the device its host name "
                "resolves to, on many nodes the loopback device"
            )
            return


def _visible(view: View) -> Iterator[str]:
    if "NVIDIA_VISIBLE_DEVICES" in view.env:
        yield f"{view.at_env('NVIDIA_VISIBLE_DEVICES')}: hides GPUs that the placement counts on"


def _side_channel_env(view: View) -> Iterator[str]:
    for name in ("VLLM_DP_MASTER_IP", "VLLM_DP_MASTER_PORT", "VLLM_DP_RANK", "VLLM_DP_SIZE"):
        if name in view.env:
            yield f"{view.at_env(name)}: one value for all processes; the launcher passes flags"


def _retries(view: View) -> Iterator[str]:
    if view.config.router.flags.get("disable-retries") is not True:
        value = view.config.router.flags.get("disable-retries")
        shown = "null" if value is None else str(value).lower()
        yield f"router.flags.disable-retries={shown}: the router sends failed requests again"


def _breaker(view: View) -> Iterator[str]:
    if view.config.router.flags.get("disable-circuit-breaker") is not True:
        value = view.config.router.flags.get("disable-circuit-breaker")
        shown = "null" if value is None else str(value).lower()
        yield f"router.flags.disable-circuit-breaker={shown}: the router may leave workers out"


def _admitted(view: View) -> Iterator[str]:
    value = view.config.router.flags.get("max-concurrent-requests")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < view.top_concurrency:
        yield (
            f"router.flags.max-concurrent-requests={value}: fewer than the sweep's concurrency "
            f"{view.top_concurrency}: the rest waits in the router or is answered 429"
        )


def _router_timeout(view: View) -> Iterator[str]:
    value, limit = (
        view.config.router.flags.get("request-timeout-secs"),
        view.config.workload.request_timeout_s,
    )
    if isinstance(value, int) and not isinstance(value, bool) and value < limit:
        yield (
            f"router.flags.request-timeout-secs={value}: the router gives up before the client "
            f"(workload.request_timeout_s={limit:g})"
        )


ENTRIES = (
    KnownBad(
        name="cuda-ipc-forbidden",
        level="error",
        check=_ipc_forbidden,
        remedy="add cuda_ipc to UCX_TLS, or leave UCX_TLS out",
        reference="dynamo#14357",
        example=("flags=article_mnnvl", "+flags.env.UCX_TLS='^cuda_ipc'"),
        near_miss=("flags=article_mnnvl", "+flags.env.UCX_TLS='cuda_copy,cuda_ipc,rc'"),
    ),
    KnownBad(
        name="mnnvl-without-cumem",
        level="warning",
        check=_mnnvl_alone,
        remedy="set flags.all.enable-cumem-allocator=true (flags=article_mnnvl)",
        reference=f"{USAGE}; vllm#51377",
        example=(f"+flags.env.{MNNVL}=y",),
        near_miss=("flags=article_mnnvl",),
    ),
    KnownBad(
        name="cumem-without-mnnvl",
        level="warning",
        check=_cumem_alone,
        remedy=f"set flags.env.{MNNVL}=y (flags=article_mnnvl)",
        reference=USAGE,
        example=("+flags.all.enable-cumem-allocator=true",),
        near_miss=("flags=article_mnnvl",),
    ),
    KnownBad(
        name="gloo-exclusion-list",
        level="error",
        check=_gloo_exclusion,
        remedy="name the device that reaches the other nodes",
        reference="vllm#7074; aws-do-eks#50",
        example=("+cluster.env.GLOO_SOCKET_IFNAME='=eth0'",),
        near_miss=("+cluster.env.NCCL_SOCKET_IFNAME='^lo'",),
    ),
    KnownBad(
        name="loopback-device",
        level="error",
        check=_loopback,
        remedy="name the device that reaches the other nodes",
        reference="vllm#7074; nccl#286",
        example=("+cluster.env.NCCL_SOCKET_IFNAME=lo",),
        near_miss=("cluster=local", "+cluster.env.NCCL_SOCKET_IFNAME=lo"),
    ),
    KnownBad(
        name="gloo-device-unset",
        level="warning",
        check=_no_interface,
        remedy="set cluster.env.GLOO_SOCKET_IFNAME to the device that reaches the other nodes",
        reference="aws-do-eks#50, aws-do-eks#51",
        example=(),
        near_miss=("+cluster.env.GLOO_SOCKET_IFNAME=enP5p9s0",),
    ),
    KnownBad(
        name="visible-devices",
        level="warning",
        check=_visible,
        remedy="remove it: the launcher gives each process its GPUs",
        reference="NVIDIA container toolkit documentation",
        example=("+cluster.env.NVIDIA_VISIBLE_DEVICES='0'",),
        near_miss=("+cluster.env.NVIDIA_DRIVER_CAPABILITIES=all",),
    ),
    KnownBad(
        name="data-parallel-variables",
        level="error",
        check=_side_channel_env,
        remedy="remove it",
        reference="vLLM 0.33.0 config/parallel.py:1022",
        example=("+cluster.env.VLLM_DP_MASTER_PORT='29500'",),
        near_miss=("cluster.ports.rpc=29500",),
    ),
    KnownBad(
        name="router-retries",
        level="warning",
        check=_retries,
        remedy="set router.flags.disable-retries=true for measurements",
        reference="vllm-router 0.1.17, retry settings",
        example=("router.flags.disable-retries=false",),
        near_miss=("router.flags.disable-retries=true",),
    ),
    KnownBad(
        name="router-circuit-breaker",
        level="warning",
        check=_breaker,
        remedy="set router.flags.disable-circuit-breaker=true for measurements",
        reference="vllm-router 0.1.17, circuit breaker settings",
        example=("router.flags.disable-circuit-breaker=false",),
        near_miss=("router.flags.disable-circuit-breaker=true",),
    ),
    KnownBad(
        name="router-admits-fewer",
        level="error",
        check=_admitted,
        remedy="raise it, or lower workload.concurrency",
        reference="vllm-router 0.1.17 router_args.py, max_concurrent_requests and queue_size",
        example=("router.flags.max-concurrent-requests=256",),
        near_miss=("router.flags.max-concurrent-requests=5120",),
    ),
    KnownBad(
        name="router-gives-up-first",
        level="warning",
        check=_router_timeout,
        remedy="leave it out: the launcher sets it to the client's",
        reference="vllm-router 0.1.17 router_args.py, request_timeout_secs",
        example=("+router.flags.request-timeout-secs=60",),
        near_miss=("+router.flags.request-timeout-secs=3600",),
    ),
)
