"""The router's command line: vllm-router in front of every address that answers HTTP."""

from __future__ import annotations

from pathlib import PurePosixPath

from launcher.flags import merge_flags, render_flags
from launcher.placement import Placement, WorkerProcess, address
from launcher.plan import LaunchPlan
from launcher.ports import process_ports
from launcher.steps import Step, Surroundings


def worker_url(process: WorkerProcess, plan: LaunchPlan) -> str | None:
    """http://address:port of a process, None when it is headless."""
    port = process_ports(process, plan.config.cluster.ports).http
    return None if port is None else f"http://{address(process.node)}:{port}"


def router_step(plan: LaunchPlan, placement: Placement, around: Surroundings) -> Step:
    """vllm-router on the first node, outside the container.

    Disaggregated: one --prefill per prefill address and one --decode per decode address; it
    counts the DP ranks behind each by its /metrics. Aggregated: --worker-urls, with the ranks
    per address told (this mode does not count them).
    """
    config = plan.config
    ports = config.cluster.ports
    argv = [router_executable(plan, around), "--host", address(0), "--port", str(ports.router)]
    argv += ["--prometheus-host", address(0), "--prometheus-port", str(ports.router_metrics)]
    urls = [(process, worker_url(process, plan)) for process in placement.processes]
    served = [(process, url) for process, url in urls if url is not None]
    if plan.disaggregated:
        argv += ["--vllm-pd-disaggregation", "--kv-connector", "nixl"]
        for process, url in served:
            argv += [f"--{process.endpoint.role}", url]
    else:
        argv += ["--worker-urls", *(url for _, url in served)]
        ranks = _ranks_per_address(served[0][0])
        if ranks > 1:
            argv += ["--intra-node-data-parallel-size", str(ranks)]
    flags = merge_flags(
        {
            "policy": config.router.policy,
            "worker-startup-timeout-secs": int(config.cluster.budgets.router_s),
            "request-timeout-secs": int(config.workload.request_timeout_s),
        },
        config.router.flags,
    )
    argv += render_flags(flags, off_prefix=None)
    return Step(name="router", node=0, argv=tuple(argv), env={}, contained=False)


def router_executable(plan: LaunchPlan, around: Surroundings) -> str:
    """The configured path, or vllm-router beside the driver's Python."""
    configured = plan.config.router.executable
    return configured or str(PurePosixPath(around.python).parent / "vllm-router")


def _ranks_per_address(process: WorkerProcess) -> int:
    """DP ranks that one address serves: all of the endpoint's behind an internal load balancer."""
    if process.endpoint.load_balancing == "hybrid":
        return len(process.dp_ranks)
    return process.endpoint.dp
