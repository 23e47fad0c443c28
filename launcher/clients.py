"""Benchmark clients' command lines; jobs/clients/ holds the programs."""

from __future__ import annotations

from collections.abc import Callable

from launcher.engines import ENGINES
from launcher.placement import address
from launcher.plan import LaunchPlan, Point, client_of
from launcher.prompts import OFFLINE, engine_python, prompts_path, tokenizer_mode
from launcher.schema import LaunchConfig
from launcher.steps import Step, Surroundings

GATE = "{run_dir}/gates"
DRAWN = ("random", "shared_prefix")
"""Sources whose lengths are drawn from the workload's ranges."""


def base_url(plan: LaunchPlan) -> str:
    """Where clients talk: the router, on the first node."""
    return f"http://{address(0)}:{plan.config.cluster.ports.router}"


def result_path(point: Point) -> str:
    """The client's own result file, relative to the run directory."""
    return f"points/raw/{point.index}-{point.name}.json"


def requests_path(point: Point) -> str:
    """The native client's record of single requests, relative to the run directory."""
    return f"requests/{point.index}-{point.name}.parquet"


def vllm_bench_path(point: Point) -> str:
    """The point as `vllm bench serve` would have written it, relative to the run directory."""
    return f"vllm-bench/{point.index}-{point.name}.json"


def client_name(config: LaunchConfig) -> str:
    """The benchmark client of a configuration: vllm_bench or native."""
    return client_of(config)


def client_step(point: Point, plan: LaunchPlan, around: Surroundings) -> Step:
    """The process that prepares a point's prompts, waits at the gate and measures."""
    return CLIENTS[point.client](point, plan, around)


def _native(point: Point, plan: LaunchPlan, around: Surroundings) -> Step:
    config = plan.config
    argv = [around.python, "-m", "jobs.clients.native", "--base-url", base_url(plan)]
    argv += ["--model", config.model.served_name, "--gate", GATE, "--name", point.name]
    argv += ["--result", f"{{run_dir}}/{result_path(point)}"]
    argv += ["--prompts", f"{{run_dir}}/{prompts_path(point)}"]
    argv += ["--concurrency", str(point.concurrency), "--seed", str(point.seed)]
    argv += ["--timeout-s", str(point.request_timeout_s), *_sending(point)]
    if point.prompts.source == "multi_turn":
        argv += ["--endpoint", "chat"]
    for name in ("goodput_ttft_ms", "goodput_tpot_ms"):
        if (limit := getattr(point, name)) is not None:
            argv += [f"--{name.replace('_', '-')}", str(limit)]
    argv += _metadata(point, config)
    name = f"client-{point.name}"
    return Step(name=name, node=0, argv=tuple(argv), env=dict(around.env), contained=False)


def _sending(point: Point) -> list[str]:
    """The native client's options besides what to send, and its records of single requests."""
    sending = point.sending
    argv = ["--stall-timeout-s", str(sending.stall_timeout_s)]
    argv += ["--processes", str(sending.processes)]
    if sending.request_rate is not None:
        argv += ["--request-rate", str(sending.request_rate)]
        argv += ["--burstiness", str(sending.burstiness)]
    return [*argv, *_aside(point), "--requests", f"{{run_dir}}/{requests_path(point)}"]


def _aside(point: Point) -> list[str]:
    """Options that both clients have: the warm-up's rate, and the file for other tools."""
    rate = point.sending.warmup_rate
    argv = [] if rate is None else ["--warmup-rate", str(rate)]
    if point.vllm_bench_json:
        argv += ["--vllm-bench-json", f"{{run_dir}}/{vllm_bench_path(point)}"]
    return argv


def _metadata(point: Point, config: LaunchConfig) -> list[str]:
    """What a result file that is read without its run must still say: that servers were stand-ins,
    and what the lengths were drawn from. Keys that `vllm bench serve --metadata` adds as well."""
    told = ["rehearsal=true"] if ENGINES[config.engine.kind].rehearsal else []
    if point.vllm_bench_json and point.prompts.source in DRAWN:
        told += [f"random_input_len={point.isl}", f"random_output_len={point.osl}"]
        told += [f"random_range_ratio={point.range_ratio:g}"]
        told += [f"range_definition={point.range_definition}"]
    return ["--metadata", *told] if told else []


def _vllm_bench(point: Point, plan: LaunchPlan, around: Surroundings) -> Step:
    config = plan.config
    argv = [engine_python(config), "-m", "jobs.clients.vllm_bench"]
    argv += ["--gate", GATE, "--name", point.name]
    argv += ["--prompts", f"{{run_dir}}/{prompts_path(point)}"]
    argv += ["--result", f"{{run_dir}}/{result_path(point)}", *_aside(point), "--"]
    argv += ["--backend", "vllm", "--base-url", base_url(plan), "--endpoint", "/v1/completions"]
    argv += ["--model", config.model.served_name]
    argv += ["--tokenizer", config.model.tokenizer or config.model.path]
    mode = tokenizer_mode(plan)
    argv += [] if mode == "auto" else ["--tokenizer-mode", mode]
    rate = point.sending.request_rate
    argv += ["--num-prompts", str(point.num_prompts)]
    argv += ["--request-rate", "inf" if rate is None else str(rate)]
    argv += [] if rate is None else ["--burstiness", str(point.sending.burstiness)]
    argv += ["--max-concurrency", str(point.concurrency), "--seed", str(point.seed)]
    argv += ["--ignore-eos", "--temperature", "0", "--disable-tqdm"]
    argv += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99"]
    for name, limit in (("ttft", point.goodput_ttft_ms), ("tpot", point.goodput_tpot_ms)):
        if limit is not None:
            argv += [*([] if "--goodput" in argv else ["--goodput"]), f"{name}:{limit}"]
    argv += _metadata(point, config)
    env = dict(around.env) | OFFLINE | {"VLLM_NO_USAGE_STATS": "1"}
    return Step(name=f"client-{point.name}", node=0, argv=tuple(argv), env=env)


CLIENTS: dict[str, Callable[[Point, LaunchPlan, Surroundings], Step]] = {
    "vllm_bench": _vllm_bench,
    "native": _native,
}
