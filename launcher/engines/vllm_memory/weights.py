"""Bytes of weights on one GPU: experts shared out over EP, the rest held by every rank."""

from __future__ import annotations

from launcher.engines.vllm_memory.settings import Settings
from launcher.engines.vllm_memory.unknown import UnknownError, known
from launcher.plan import Endpoint
from launcher.schema import ModelFacts


def weights_bytes(endpoint: Endpoint, settings: Settings, facts: ModelFacts) -> int:
    """Weights of one GPU, without MTP: its parameters are not among the facts.

    Experts are split over tp * dp, whole ones with expert parallelism and slices of each without
    (model_executor/layers/fused_moe/config.py FusedMoEParallelConfig.make); redundant experts of
    EPLB are added. Everything else is divided by tp: exact but for norms and routers, which every
    rank holds. Pipeline stages are taken as equal.
    """
    other = known(facts.other_params, "model.facts.other_params") * known(
        facts.other_bytes_per_param, "model.facts.other_bytes_per_param"
    )
    share = other / endpoint.tp
    if facts.experts:
        share += _experts(endpoint, settings, facts)
    if settings.draft_method is not None and settings.draft_method != "ngram":
        raise UnknownError(f"weights of speculative-config method={settings.draft_method}")
    return round(share / endpoint.pp)


def _experts(endpoint: Endpoint, settings: Settings, facts: ModelFacts) -> float:
    experts = known(facts.experts, "model.facts.experts")
    size = known(facts.expert_params, "model.facts.expert_params") * known(
        facts.expert_bytes_per_param, "model.facts.expert_bytes_per_param"
    )
    ranks = endpoint.tp * endpoint.dp
    if not endpoint.expert_parallel:
        return size / ranks
    held = -(-(experts + settings.redundant_experts) // ranks)
    return size * held / experts
