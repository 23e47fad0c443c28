"""What every node of the allocation must have, as run.json carries it for the job's preflight."""

from __future__ import annotations

from typing import Any

from launcher.engines import ENGINES
from launcher.placement import Placement
from launcher.plan import LaunchPlan
from launcher.router import router_executable
from launcher.staging import caches_name
from launcher.steps import Step, Surroundings, step_document


def preflight_document(
    plan: LaunchPlan, placement: Placement, around: Surroundings, mounts: tuple[str, ...]
) -> dict[str, Any]:
    """What every node must have; what only its container can tell is asked by a step inside."""
    config, engine = plan.config, ENGINES[plan.config.engine.kind]
    cluster = config.cluster
    executables = [around.python, router_executable(plan, around)]
    env_dir = None if engine.rehearsal else config.engine.env_dir
    if cluster.container.kind != "none":
        env_dir = None
    elif env_dir:
        executables.append(f"{env_dir}/bin/vllm")
    return {
        "paths": [around.code_dir],
        "executables": executables,
        "min_free_disk_gb": cluster.min_free_disk_gb,
        "min_free_memory_gb": cluster.preflight.min_free_memory_gb,
        "cache_dir": None if engine.rehearsal else cluster.cache_dir,
        "kept_caches": None if engine.rehearsal else caches_name(config),
        "model": None if engine.rehearsal else config.model.path,
        "engine_python": f"{env_dir}/bin/python" if env_dir else None,
        "devices": _devices(plan, placement, around),
        "max_clock_skew_s": cluster.preflight.max_clock_skew_s,
        "max_gpu_used_gb": cluster.preflight.max_gpu_used_gb,
        "inside": _inside_steps(plan, placement, around, mounts),
        "on_bad_node": config.on_bad_node,
        "exclude": cluster.sbatch.get("exclude", cluster.exclude),
    }


def _devices(plan: LaunchPlan, placement: Placement, around: Surroundings) -> list[str]:
    """Network devices that the workers' environment names: one for Gloo, several for UCX."""
    engine = ENGINES[plan.config.engine.kind]
    named: set[str] = set()
    for process in placement.processes:
        env = engine.worker_env(process, plan, around)
        for name in ("GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES"):
            named |= {word.partition(":")[0] for word in env.get(name, "").split(",")}
    return sorted(named - {"", "all"})


def _inside_steps(
    plan: LaunchPlan, placement: Placement, around: Surroundings, mounts: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The preflight's own program in the container of every node that runs a worker."""
    cluster = plan.config.cluster
    if cluster.container.kind == "none" or not ENGINES[plan.config.engine.kind].contained():
        return []
    steps = [
        Step(
            name=f"preflight{node}-container",
            node=node,
            argv=("python3", "-m", "jobs.preflight"),
            env=around.env,
        )
        for node in sorted({process.node for process in placement.processes})
    ]
    return [step_document(step, cluster, mounts) for step in steps]
