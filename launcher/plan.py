"""What to launch, before any node is known: endpoints with their sizes, flags and points."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from launcher.flags import merge_layers
from launcher.lengths import length_range
from launcher.options.layers import flag_layers
from launcher.schema import LaunchConfig, WorkloadConfig
from launcher.steady import made_once

ROLE_ORDER = ("prefill", "decode", "aggregated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One logical engine: dp data-parallel ranks of tp x pp GPUs, maybe over several nodes."""

    role: str
    index: int
    tp: int
    pp: int
    dp: int
    expert_parallel: bool
    load_balancing: str
    rank_offset: int
    """DP ranks of all endpoints before this one: keeps side-channel port blocks disjoint."""
    flags: Mapping[str, Any]

    @property
    def name(self) -> str:
        """prefill0, prefill1, ..., decode0."""
        return f"{self.role}{self.index}"

    @property
    def gpus_per_rank(self) -> int:
        """GPUs of one data-parallel rank."""
        return self.tp * self.pp

    @property
    def gpus(self) -> int:
        """GPUs of the whole endpoint."""
        return self.gpus_per_rank * self.dp


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPlan:
    """What a point's prompts are, besides their number, lengths and seed (docs/prompts.md)."""

    source: str = "random"
    form: str = "auto"
    """auto | text | ids."""
    template: bool = False
    verify: str = "auto"
    prefix_tokens: int = 0
    prefix_groups: int = 1
    turns: int = 1
    wait_s: float = 0.0
    trace_path: str = ""
    trace_speed: float = 1.0
    trace_block_tokens: int = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How a point's requests are sent (docs/load-client.md)."""

    request_rate: float | None = None
    burstiness: float = 1.0
    warmup_rate: float | None = None
    processes: int = 0
    stall_timeout_s: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One benchmark point; token ranges are inclusive [low, high] per request."""

    index: int
    name: str
    """c64, c64-rate2.5, c64-repeat2; 8192x1024-c64 where a run has points of several workloads:
    for logs and files."""
    concurrency: int
    num_prompts: int
    warmup_requests: int
    isl: int
    osl: int
    range_definition: str
    range_ratio: float
    input_range: tuple[int, int]
    output_range: tuple[int, int]
    seed: int
    """Its own: workload.seed + index."""
    client: str
    sending: Sending = Sending()
    request_timeout_s: float
    prompts: PromptPlan = PromptPlan()
    goodput_ttft_ms: float | None = None
    goodput_tpot_ms: float | None = None
    workload: str = ""
    """Label of the workload, where the run has points of several."""
    repeat: int = 0
    """Which measurement of this load, from 0."""
    vllm_bench_json: bool = False

    def load(self) -> tuple[object, ...]:
        """What makes the measurement, whatever its place in a run: equal loads are one point."""
        return (
            *(self.concurrency, self.num_prompts, self.warmup_requests, self.isl, self.osl),
            *(self.range_definition, self.range_ratio, self.input_range, self.output_range),
            self.sending,
            *(self.client, self.request_timeout_s, self.seed - self.index, self.prompts),
            *(self.goodput_ttft_ms, self.goodput_tpot_ms, self.repeat, self.vllm_bench_json),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """The configuration with its endpoints and points worked out."""

    config: LaunchConfig
    endpoints: tuple[Endpoint, ...]
    points: tuple[Point, ...]

    @property
    def serving_gpus(self) -> int:
        """GPUs that hold a rank: the divisor of the published total TPS/GPU."""
        return sum(endpoint.gpus for endpoint in self.endpoints)

    def role_gpus(self) -> dict[str, int]:
        """GPUs of each role."""
        sums: dict[str, int] = {}
        for endpoint in self.endpoints:
            sums[endpoint.role] = sums.get(endpoint.role, 0) + endpoint.gpus
        return sums

    @property
    def disaggregated(self) -> bool:
        """Whether prefill and decode are separate endpoints, with KV crossing between them."""
        return "prefill" in self.role_gpus()

    def role_ranks(self, role: str) -> int:
        """DP ranks of all endpoints of a role."""
        return sum(endpoint.dp for endpoint in self.endpoints if endpoint.role == role)


@made_once
def build_plan(config: LaunchConfig) -> LaunchPlan:
    """The plan of a configuration. Pure; raises LauncherError for lengths that have no meaning."""
    return LaunchPlan(config=config, endpoints=_endpoints(config), points=_points(config))


def _endpoints(config: LaunchConfig) -> tuple[Endpoint, ...]:
    endpoints: list[Endpoint] = []
    offset = 0
    for role in ROLE_ORDER:
        shape = config.topology.roles.get(role)
        if shape is None:
            continue
        flags = merge_layers(flag_layers(config, role))
        for index in range(shape.endpoints):
            endpoints.append(
                Endpoint(
                    role=role,
                    index=index,
                    tp=shape.tp,
                    pp=shape.pp,
                    dp=shape.dp,
                    expert_parallel=shape.expert_parallel,
                    load_balancing=shape.load_balancing,
                    rank_offset=offset,
                    flags=flags,
                )
            )
            offset += shape.dp
    return tuple(endpoints)


def client_of(config: LaunchConfig) -> str:
    """The benchmark client of a configuration: vllm_bench or native."""
    return config.workload.client or config.engine.client


def prompt_plan(load: WorkloadConfig) -> PromptPlan:
    """The part of the workload that its source uses."""
    plan = PromptPlan(
        source=load.source,
        form=load.prompt_form,
        template=load.chat_template,
        verify=load.verify_prompts,
    )
    if load.source == "shared_prefix":
        prefix = load.shared_prefix
        return replace(plan, prefix_tokens=prefix.tokens, prefix_groups=prefix.groups)
    if load.source == "multi_turn":
        return replace(plan, turns=load.multi_turn.turns, wait_s=load.multi_turn.wait_s)
    if load.source == "trace":
        trace = load.trace
        return replace(
            plan,
            trace_path=trace.path or "",
            trace_speed=trace.speed,
            trace_block_tokens=trace.block_tokens,
        )
    return plan


def point_name(point: Point, lengths: bool = False) -> str:
    """What sets a point apart in its run; `lengths` where its points have several."""
    parts = [f"{point.isl}x{point.osl}"] if lengths else []
    parts.append(f"c{point.concurrency}")
    if point.sending.request_rate is not None:
        parts.append(f"rate{point.sending.request_rate:g}")
    if point.repeat:
        parts.append(f"repeat{point.repeat + 1}")
    return "-".join(parts)


def _points(config: LaunchConfig) -> tuple[Point, ...]:
    """All concurrencies, then all of them again: a slow change of the servers is then between
    the repeats of a point, and a run cut short has the whole sweep."""
    load = config.workload
    inputs = length_range(load.range_definition, load.range_ratio, load.isl)
    outputs = length_range(load.range_definition, load.range_ratio, load.osl)
    prompts = prompt_plan(load)
    rounds = itertools.product(range(load.repeats), load.concurrency)
    points = (
        Point(
            index=index,
            name="",
            concurrency=concurrency,
            num_prompts=max(1, round(load.prompts_per_concurrency * concurrency)),
            warmup_requests=round(load.warmup_per_concurrency * concurrency),
            isl=load.isl,
            osl=load.osl,
            range_definition=load.range_definition,
            range_ratio=load.range_ratio,
            input_range=inputs,
            output_range=outputs,
            seed=load.seed + index,
            client=client_of(config),
            sending=Sending(
                request_rate=load.request_rate,
                burstiness=load.burstiness,
                warmup_rate=load.warmup_rate,
                processes=load.client_processes,
                stall_timeout_s=load.stall_timeout_s,
            ),
            request_timeout_s=load.request_timeout_s,
            prompts=prompts,
            goodput_ttft_ms=load.goodput.ttft_ms,
            goodput_tpot_ms=load.goodput.tpot_ms,
            repeat=repeat,
            vllm_bench_json=load.vllm_bench_json,
        )
        for index, (repeat, concurrency) in enumerate(rounds)
    )
    return tuple(replace(point, name=point_name(point)) for point in points)
