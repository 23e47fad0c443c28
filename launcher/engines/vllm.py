"""vLLM's command line and environment, on GPUs and on CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.capacity import Capacity
from launcher.engines.vllm_checks import table_advice, table_problems
from launcher.engines.vllm_memory import capacity_of, memory_advice, memory_problems
from launcher.flags import render_flags
from launcher.options.layers import env_layers
from launcher.options.table import numbers
from launcher.placement import WorkerProcess, address
from launcher.plan import Endpoint, LaunchPlan
from launcher.ports import process_ports
from launcher.schema import LaunchConfig
from launcher.staging import cache_home, served_path
from launcher.steps import Surroundings

CAPTURE_FLAG = "max-cudagraph-capture-size"
OWNED_FLAGS = frozenset(
    {
        *("host", "port", "model", "served-model-name", "api-key", "headless", "device-ids"),
        *("tensor-parallel-size", "pipeline-parallel-size", "enable-expert-parallel"),
        *("nnodes", "node-rank", "master-addr", "master-port"),
        *("data-parallel-size", "data-parallel-size-local", "data-parallel-start-rank"),
        *("data-parallel-rank", "data-parallel-address", "data-parallel-rpc-port"),
        *("data-parallel-hybrid-lb", "data-parallel-external-lb"),
        *("data-parallel-multi-port-external-lb", "data-parallel-supervisor-port"),
        *("config", "tokenizer", "uds", "grpc", "grpc-port", "root-path"),
        *("ssl-keyfile", "ssl-certfile"),
    }
)

OWNED_ENV = frozenset(
    {
        *("VLLM_HOST_IP", "VLLM_PORT", "VLLM_CACHE_ROOT", "CUDA_VISIBLE_DEVICES"),
        *("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"),
    }
)


def default_capture_limit(release: str) -> int:
    """Largest captured decode batch when no flag says so, on GB200.

    512 until 0.27, 1024 on SM100 since 0.28.0 (vllm config/vllm.py of those releases).
    """
    return 512 if numbers(release) < (0, 28) else 1024


def capture_size(plan: LaunchPlan) -> int | None:
    """Decode's max-cudagraph-capture-size by the article's rule, None where the default suffices.

    highest concurrency / decode ranks + 128 (640 at 4096, 768 at 5120 on DEP8; srt-slurm-recipes
    8b088c0, *-cc4096.yaml and *-cc5120.yaml).
    """
    ranks = plan.role_ranks("decode")
    if not (plan.config.flags.capture_rule and ranks and plan.points):
        return None
    highest = max(point.concurrency for point in plan.points)
    size = -(-highest // ranks) + 128
    return size if size > default_capture_limit(plan.config.engine.release) else None


class VllmEngine:
    """`vllm serve`, one process per node of an endpoint."""

    protocol = "vllm"
    rehearsal = False
    owned_flags = OWNED_FLAGS
    owned_env = OWNED_ENV

    def worker_argv(self, process: WorkerProcess, plan: LaunchPlan, _: Surroundings) -> list[str]:
        """`vllm serve MODEL ...` for one node of an endpoint."""
        config, endpoint = plan.config, process.endpoint
        ports = process_ports(process, config.cluster.ports)
        argv = [_executable(plan), "serve", served_path(config)]
        argv += ["--served-model-name", config.model.served_name]
        if config.model.tokenizer:
            argv += ["--tokenizer", config.model.tokenizer]
        if ports.http is not None:
            argv += ["--host", address(process.node), "--port", str(ports.http)]
        argv += ["--tensor-parallel-size", str(endpoint.tp)]
        argv += ["--pipeline-parallel-size", str(endpoint.pp)]
        argv += ["--data-parallel-size", str(endpoint.dp)]
        argv += _spread(process, ports.rpc)
        if endpoint.expert_parallel:
            argv.append("--enable-expert-parallel")
        return argv + render_flags(_flags(endpoint, plan), off_prefix="no-")

    def worker_env(
        self, process: WorkerProcess, plan: LaunchPlan, _: Surroundings
    ) -> dict[str, str]:
        """Environment of one process: addresses of its own node, its GPUs, its own caches."""
        config = plan.config
        ports = process_ports(process, config.cluster.ports)
        cache = f"{cache_home(config)}/{process.name}"
        env = {
            "VLLM_HOST_IP": address(process.node),
            "VLLM_CACHE_ROOT": f"{cache}/vllm",
            "TRITON_CACHE_DIR": f"{cache}/triton",
            "FLASHINFER_WORKSPACE_BASE": f"{cache}/flashinfer",
            "VLLM_ENGINE_READY_TIMEOUT_S": str(int(config.cluster.budgets.start_s)),
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
        }
        if config.engine.device == "cuda":
            env["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in process.gpus)
        if self.transfers_kv(plan):
            env["VLLM_NIXL_SIDE_CHANNEL_HOST"] = address(process.node)
            env["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(ports.nixl_base)
        if ports.internal is not None:
            env["VLLM_PORT"] = str(ports.internal.start)
        return env | configured_env(config)

    def transfers_kv(self, plan: LaunchPlan) -> bool:
        """KV crosses where prefill and decode are apart."""
        return plan.disaggregated

    def problems(self, config: LaunchConfig) -> Iterator[str]:
        """Flags and variables that the release refuses, and what does not fit in memory.

        Combinations known to be wrong are in launcher/known_bad/.
        """
        yield from table_problems(config, OWNED_FLAGS)
        yield from memory_problems(config, configured_env(config))

    def advice(self, config: LaunchConfig) -> Iterator[str]:
        """Settings that run, but hardly as meant."""
        yield from table_advice(config, OWNED_FLAGS)
        yield from memory_advice(config, configured_env(config))

    def capacity(self, plan: LaunchPlan) -> Capacity:
        """Weights, KV blocks and sequences at once, by the release's own arithmetic."""
        return capacity_of(plan, configured_env(plan.config))

    def contained(self) -> bool:
        """vLLM lives in the cluster's image."""
        return True


def configured_env(config: LaunchConfig) -> dict[str, str]:
    """Variables of all layers; later ones win: cluster, engine, model, flags."""
    return {name: value for _, env in env_layers(config) for name, value in env.items()}


def _executable(plan: LaunchPlan) -> str:
    config = plan.config
    if config.cluster.container.kind == "none" and config.engine.env_dir:
        return f"{config.engine.env_dir}/bin/vllm"
    return "vllm"


def _spread(process: WorkerProcess, rpc_port: int) -> list[str]:
    """Flags that tie an endpoint's nodes together (vLLM docs/serving/data_parallel_deployment)."""
    endpoint = process.endpoint
    if process.spans_rank:
        argv = ["--nnodes", str(process.endpoint_nodes), "--node-rank", str(process.node_rank)]
        argv += ["--master-addr", address(process.leader_node), "--master-port", str(rpc_port)]
        return argv if process.leader else [*argv, "--headless"]
    if endpoint.dp == 1:
        return []
    argv = ["--data-parallel-size-local", str(len(process.dp_ranks))]
    argv += ["--data-parallel-address", address(process.leader_node)]
    argv += ["--data-parallel-rpc-port", str(rpc_port)]
    if process.endpoint_nodes == 1:
        return argv
    if endpoint.load_balancing == "hybrid":
        start = ["--data-parallel-start-rank", str(process.dp_ranks[0])]
        return [*argv, *start, "--data-parallel-hybrid-lb"]
    if process.leader:
        return argv
    return [*argv, "--data-parallel-start-rank", str(process.dp_ranks[0]), "--headless"]


def _flags(endpoint: Endpoint, plan: LaunchPlan) -> Mapping[str, Any]:
    flags = dict(endpoint.flags)
    size = capture_size(plan)
    if endpoint.role == "decode" and size is not None and CAPTURE_FLAG not in flags:
        flags[CAPTURE_FLAG] = size
    return flags
