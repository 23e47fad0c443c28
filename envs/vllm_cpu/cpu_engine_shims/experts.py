"""Expert parallelism for vLLM's CPU mixture-of-experts kernel, which knows local experts only."""

from __future__ import annotations

from typing import Any

from vllm.model_executor.layers.fused_moe.experts import cpu_moe


def install() -> None:
    """Make the kernel see local expert ids; experts of other ranks get weight zero."""
    kernel = cpu_moe.CPUUnquantizedExperts
    local_apply = kernel.apply
    if getattr(local_apply, "maps_experts", False):
        return

    def apply(
        self: Any,
        output: Any,
        hidden_states: Any,
        w1: Any,
        w2: Any,
        topk_weights: Any,
        topk_ids: Any,
        activation: Any,
        global_num_experts: int,
        expert_map: Any,
        *rest: Any,
        **named: Any,
    ) -> Any:
        if expert_map is not None:
            local = expert_map.to(topk_ids.device)[topk_ids.long()]
            topk_weights = topk_weights.masked_fill(local < 0, 0)
            topk_ids = local.clamp(min=0).to(topk_ids.dtype)
        return local_apply(
            self, output, hidden_states, w1, w2, topk_weights, topk_ids, activation,
            global_num_experts, None, *rest, **named,
        )  # fmt: skip

    apply.maps_experts = True  # type: ignore[attr-defined]
    kernel.apply = apply
