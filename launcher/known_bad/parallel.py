"""Experts, redundancy and context parallelism against the sizes of a role."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import RoleView, View

PARALLEL = "vLLM 0.33.0 config/parallel.py"
MICROBATCH_BACKENDS = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")


def _ep(role: RoleView) -> int:
    return role.shape.tp * role.shape.dp if role.shape.expert_parallel else 1


def _at(role: RoleView, key: str, value: object) -> str:
    return f"topology.roles.{role.name}.{key}={str(value).lower()}"


def _dense(view: View) -> Iterator[str]:
    dense = view.facts.layers is not None and view.facts.experts is None
    for role in view.roles.values():
        if dense and role.shape.expert_parallel:
            yield f"{_at(role, 'expert_parallel', True)}: the model has no experts"


def _eplb_without_ep(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if role.flags.get("enable-eplb") is True and not role.shape.expert_parallel:
            yield f"{role.at('enable-eplb')}: {_at(role, 'expert_parallel', False)}"


def _eplb_alone(view: View) -> Iterator[str]:
    for role in view.roles.values():
        on = role.flags.get("enable-eplb") is True and role.shape.expert_parallel
        if on and role.shape.tp * role.shape.dp <= 1:
            yield f"{role.at('enable-eplb')}: tp {role.shape.tp} x dp {role.shape.dp} is one rank"


def _redundant_without_eplb(view: View) -> Iterator[str]:
    for role in view.roles.values():
        spare = role.nested("eplb-config", "num_redundant_experts")
        if spare and role.flags.get("enable-eplb") is not True:
            yield f"{role.at('eplb-config')}: {spare} redundant experts without enable-eplb"


def _uneven_eplb(view: View) -> Iterator[str]:
    experts = view.facts.experts
    for role in view.roles.values():
        if experts is None or role.flags.get("enable-eplb") is not True or _ep(role) <= 1:
            continue
        spare = role.nested("eplb-config", "num_redundant_experts") or 0
        if not isinstance(spare, int):
            continue
        total = experts + spare
        if total % _ep(role):
            yield (
                f"{role.at('enable-eplb')}: {experts} + {spare} redundant experts over EP "
                f"{_ep(role)} (tp {role.shape.tp} x dp {role.shape.dp}) leave {total % _ep(role)}"
            )


def _too_many_ranks(view: View) -> Iterator[str]:
    experts = view.facts.experts
    for role in view.roles.values():
        if experts is not None and _ep(role) > experts:
            yield (
                f"{_at(role, 'dp', role.shape.dp)}: EP {_ep(role)} (tp {role.shape.tp} x dp "
                f"{role.shape.dp}) is more than the model's {experts} experts"
            )


def _uneven(view: View) -> Iterator[str]:
    experts = view.facts.experts
    for role in view.roles.values():
        if experts is None or role.flags.get("enable-eplb") is True:
            continue
        if 1 < _ep(role) <= experts and experts % _ep(role):
            few, over = divmod(experts, _ep(role))
            yield (
                f"{_at(role, 'dp', role.shape.dp)}: {experts} experts over EP {_ep(role)}: {over} "
                f"ranks hold {few + 1}, the others {few}; every step waits for the fullest"
            )


def _eplb_cpu(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if view.config.engine.device == "cpu" and role.flags.get("enable-eplb") is True:
            yield f"{role.at('enable-eplb')}: EPLB needs GPUs"
            return


def _context(view: View) -> Iterator[str]:
    for role in view.roles.values():
        size = role.number("prefill-context-parallel-size") or 1
        if size > 1:
            yield (
                f"{role.at('prefill-context-parallel-size')}: a rank then takes {size} times its "
                "tp x pp GPUs, which the placement does not give it"
            )


def _decode_context(view: View) -> Iterator[str]:
    for role in view.roles.values():
        size, heads = role.number("decode-context-parallel-size") or 1, view.facts.kv_heads
        if size > 1 and heads is not None and size > max(1, role.shape.tp // heads):
            yield (
                f"{role.at('decode-context-parallel-size')}: tp {role.shape.tp} over {heads} KV "
                f"heads allows {max(1, role.shape.tp // heads)}"
            )


def _microbatch(view: View) -> Iterator[str]:
    for role in view.roles.values():
        backend = role.flags.get("all2all-backend", "allgather_reducescatter")
        if role.flags.get("enable-dbo") is True and backend not in MICROBATCH_BACKENDS:
            yield f"{role.at('enable-dbo')}: not with all2all-backend {backend}"


def _moonep(view: View) -> Iterator[str]:
    quantised = (view.facts.expert_bytes_per_param or 2.0) < 2.0
    for role in view.roles.values():
        if role.flags.get("all2all-backend") == "moonep" and quantised:
            yield f"{role.at('all2all-backend')}: takes BF16 experts only, these are quantised"


def _removed_backend(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if role.flags.get("all2all-backend") in ("pplx", "naive"):
            yield f"{role.at('all2all-backend')}: was removed; allgather_reducescatter is used"


def _elastic(view: View) -> Iterator[str]:
    for role in view.spread():
        if role.flags.get("enable-elastic-ep") is True and role.shape.load_balancing == "hybrid":
            yield f"{role.at('enable-elastic-ep')}: not with load_balancing=hybrid"


def _fault_tolerance(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if role.flags.get("enable-fault-tolerance") is True:
            yield (
                f"{role.at('enable-fault-tolerance')}: needs external load balancing, one server "
                "process a rank, which this launcher does not start"
            )


def _ray(view: View) -> Iterator[str]:
    for process in view.placement.processes:
        role = view.roles[process.endpoint.role]
        backend = role.flags.get("distributed-executor-backend", "mp")
        if process.spans_rank and process.leader and backend not in ("mp", "uni"):
            yield f"{role.at('distributed-executor-backend')}: tp over nodes needs mp"
            return


ENTRIES = (
    KnownBad(
        name="expert-parallel-dense",
        level="error",
        check=_dense,
        remedy="set it to false for both roles, as topology=dp1_prefill1x1 does",
        reference="vLLM 0.33.0 config/model.py:1498",
        example=("model=smollm2_135m",),
        near_miss=("model=smollm2_135m", "topology=dp1_prefill1x1"),
    ),
    KnownBad(
        name="eplb-without-expert-parallel",
        level="error",
        check=_eplb_without_ep,
        remedy="set expert_parallel to true, or leave enable-eplb out",
        reference=f"{PARALLEL}:569",
        example=(
            "+flags.roles.decode.enable-eplb=true",
            "topology.roles.decode.expert_parallel=false",
        ),
        near_miss=("+flags.roles.decode.enable-eplb=true",),
    ),
    KnownBad(
        name="eplb-on-one-rank",
        level="error",
        check=_eplb_alone,
        remedy="leave it out",
        reference=f"{PARALLEL}:573",
        example=("+flags.roles.decode.enable-eplb=true", "topology.roles.decode.dp=1"),
        near_miss=("+flags.roles.decode.enable-eplb=true", "topology.roles.decode.dp=2"),
    ),
    KnownBad(
        name="redundant-experts-without-eplb",
        level="error",
        check=_redundant_without_eplb,
        remedy="add enable-eplb: true, or leave them out",
        reference=f"{PARALLEL}:586",
        example=("+flags.all.eplb-config={num_redundant_experts:32}",),
        near_miss=(
            "+flags.all.eplb-config={num_redundant_experts:32}",
            "+flags.all.enable-eplb=true",
        ),
    ),
    KnownBad(
        name="eplb-experts-uneven",
        level="error",
        check=_uneven_eplb,
        remedy="choose redundant experts so that EP divides the sum",
        reference="vLLM 0.33.0 model_executor/layers/fused_moe/layer.py",
        example=(
            "+flags.roles.decode.enable-eplb=true",
            "+flags.roles.decode.eplb-config={num_redundant_experts:12}",
        ),
        near_miss=(
            "+flags.roles.decode.enable-eplb=true",
            "+flags.roles.decode.eplb-config={num_redundant_experts:16}",
        ),
    ),
    KnownBad(
        name="more-ranks-than-experts",
        level="error",
        check=_too_many_ranks,
        remedy="lower tp x dp",
        reference="vLLM 0.33.0 model_executor/layers/fused_moe/layer.py",
        example=("model=tiny_qwen3_5", "topology.roles.decode.dp=16"),
        near_miss=("model=tiny_qwen3_5",),
    ),
    KnownBad(
        name="experts-uneven",
        level="warning",
        check=_uneven,
        remedy=(
            "a tp x dp that divides them, or enable-eplb with redundant experts, keeps ranks even"
        ),
        reference="vLLM 0.33.0 model_executor/layers/fused_moe/layer.py",
        example=("topology.roles.decode.dp=12",),
        near_miss=("topology.roles.decode.dp=16",),
    ),
    KnownBad(
        name="eplb-on-cpu",
        level="error",
        check=_eplb_cpu,
        remedy="leave it out",
        reference=f"{PARALLEL}:563",
        example=("experiment=demo_hybrid", "+flags.all.enable-eplb=true"),
        near_miss=("experiment=demo_hybrid", "+flags.all.enable-eplb=false"),
    ),
    KnownBad(
        name="prefill-context-parallel",
        level="error",
        check=_context,
        remedy="leave it out",
        reference="vLLM 0.33.0 engine/arg_utils.py:2407",
        example=("+flags.roles.prefill.prefill-context-parallel-size=2",),
        near_miss=("+flags.roles.prefill.prefill-context-parallel-size=1",),
    ),
    KnownBad(
        name="decode-context-parallel",
        level="error",
        check=_decode_context,
        remedy="leave it out, or raise tp",
        reference="vLLM 0.33.0 config/model.py:1578",
        example=("+flags.roles.decode.decode-context-parallel-size=2",),
        near_miss=(
            "+flags.roles.decode.decode-context-parallel-size=2",
            "topology.roles.decode.tp=4",
        ),
    ),
    KnownBad(
        name="microbatching-backend",
        level="error",
        check=_microbatch,
        remedy=f"set all2all-backend to one of {', '.join(MICROBATCH_BACKENDS)}",
        reference="vLLM 0.33.0 config/vllm.py:2180",
        example=("+flags.all.enable-dbo=true",),
        near_miss=(
            "+flags.all.enable-dbo=true",
            "+flags.all.all2all-backend=deepep_low_latency",
        ),
    ),
    KnownBad(
        name="moonep-quantised",
        level="error",
        since="0.31.0",
        check=_moonep,
        remedy="use another all2all-backend",
        reference="vLLM 0.33.0 config/vllm.py:2106",
        example=("+flags.all.all2all-backend=moonep",),
        near_miss=("+flags.all.all2all-backend=moonep", "model=tiny_qwen3_5"),
    ),
    KnownBad(
        name="removed-all2all-backend",
        level="warning",
        check=_removed_backend,
        remedy="name the backend that is meant",
        reference=f"{PARALLEL}:537",
        example=("+flags.all.all2all-backend=pplx",),
        near_miss=("+flags.all.all2all-backend=allgather_reducescatter",),
    ),
    KnownBad(
        name="elastic-with-hybrid-balancing",
        level="error",
        check=_elastic,
        remedy="leave it out, or use load_balancing=internal",
        reference=f"{PARALLEL}:982",
        example=("+flags.roles.decode.enable-elastic-ep=true",),
        near_miss=("+flags.roles.prefill.enable-elastic-ep=true",),
    ),
    KnownBad(
        name="fault-tolerance-balancing",
        level="error",
        check=_fault_tolerance,
        remedy="leave it out",
        reference="vLLM 0.33.0 engine/arg_utils.py:2451",
        example=("+flags.all.enable-fault-tolerance=true",),
        near_miss=("+flags.all.enable-fault-tolerance=false",),
    ),
    KnownBad(
        name="rank-over-nodes-without-mp",
        level="error",
        check=_ray,
        remedy="leave it out",
        reference=f"{PARALLEL}:1106",
        example=(
            *("topology.roles.decode.tp=8", "topology.roles.decode.dp=1"),
            "+flags.roles.decode.distributed-executor-backend=ray",
        ),
        near_miss=("+flags.roles.decode.distributed-executor-backend=ray",),
    ),
)
