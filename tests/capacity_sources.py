"""Run by the engine environment's Python: another release's own functions on a GPU's shape.

    PYTHONPATH=/unpacked/vllm-X.Y.Z python capacity_sources.py cases.json

Executes, from that release's sources: _align_hybrid_block_size (platforms/interface.py), the GDN
state shape (mamba_utils.py), MambaSpec and FullAttentionSpec, the grouping, the number of blocks
and the two logged numbers (v1/core). Stand-ins: the configuration objects, an attention backend
that takes 16-token kernel blocks (as FlashInfer says of itself), and the model class, which has
the model's dimensions. No kernel and no engine runs. Prints one JSON line per case.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
from vllm.model_executor.models import ModelRegistry
from vllm.platforms.interface import Platform
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec, get_kv_quant_mode

DTYPES = {
    "bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16,
    "fp8": torch.uint8,
}  # fmt: skip
MTP_TOKENS = 0


class Backend:
    """An attention backend that takes kernel blocks of 16 tokens and packs nothing."""

    @staticmethod
    def get_supported_kernel_block_sizes(_: Any = None) -> list[int]:
        return [16, 32, 64]

    @staticmethod
    def customize_spec(spec: Any) -> Any:
        return spec


def configuration(case: dict[str, Any]) -> Any:
    """Stand-ins for the parts of VllmConfig that the functions read."""
    cache = SimpleNamespace(
        cache_dtype=case["kv_dtype"], block_size=16, mamba_cache_mode=case["mode"],
        mamba_block_size=None, user_specified_mamba_block_size=False,
        mamba_page_size_padded=None, kv_cache_dtype_skip_layers=[],
        num_gpu_blocks_override=None, kv_cache_layout="LBHNC", prefix_cache_retention_interval=0,
        get_resolved_kv_cache_layout=_layout,
    )  # fmt: skip
    model = SimpleNamespace(
        dtype=torch.bfloat16, use_mla=False, architecture="Case", architectures=["Case"],
        get_num_kv_heads=lambda _: case["kv_heads"], get_head_size=lambda: case["head_dim"],
        max_model_len=case["max_model_len"], original_max_model_len=case["max_model_len"],
        get_mamba_chunk_size=lambda: 2048, supports_kv_cache_grouping=False,
    )  # fmt: skip
    return SimpleNamespace(
        cache_config=cache, model_config=model,
        parallel_config=SimpleNamespace(
            tensor_parallel_size=1, decode_context_parallel_size=1,
            prefill_context_parallel_size=1, pipeline_parallel_size=1,
        ),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        compilation_config=SimpleNamespace(static_forward_context={}),
        device_config=SimpleNamespace(device_type="cuda"),
        speculative_config=None, num_prefill_lookahead_tokens=0, num_speculative_tokens=0,
        kv_transfer_config=None,
    )  # fmt: skip


def _layout() -> Any:
    from vllm.v1 import kv_cache_interface  # noqa: PLC0415 - absent in older releases

    names = ("vllm.v1.kv_cache_layout", "vllm.v1.attention.backends.utils")
    for name in (kv_cache_interface.__name__, *names):
        layout = getattr(sys.modules.get(name), "KVCacheLayout", None)
        if layout is not None:
            return layout["LBHNC"]
    raise SystemExit("no KVCacheLayout found")


def size(case: dict[str, Any]) -> dict[str, Any]:
    """Block size, blocks, bytes of an id and the two logged numbers, by the release's code."""
    config = configuration(case)
    shapes = MambaStateShapeCalculator.gated_delta_net_state_shape(
        1, case["gdn_key_heads"], case["gdn_value_heads"], case["gdn_head_dim"],
        case["gdn_head_dim"], case["gdn_conv_kernel"], 0,
    )  # fmt: skip
    dtypes = (torch.bfloat16, DTYPES[case["state_dtype"]])
    model = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _: shapes,
        get_mamba_state_dtype_from_config=lambda _: dtypes,
    )
    ModelRegistry.resolve_model_cls = lambda *_, **__: (model, "Case")
    Platform._find_non_ssm_backends = classmethod(lambda *_: [Backend])
    Platform._get_indexer_block_alignment = classmethod(lambda *_: None)
    Platform._align_hybrid_block_size(config, Backend)
    cache = config.cache_config
    attention = FullAttentionSpec(
        block_size=cache.block_size, num_kv_heads=case["kv_heads"], head_size=case["head_dim"],
        dtype=DTYPES[case["kv_dtype"]], kv_quant_mode=get_kv_quant_mode(case["kv_dtype"]),
    )  # fmt: skip
    state = MambaSpec(
        shapes=tuple(shapes), dtypes=dtypes, mamba_cache_mode=case["mode"],
        block_size=cache.mamba_block_size or case["max_model_len"],
        page_size_padded=cache.mamba_page_size_padded,
    )  # fmt: skip
    every = case["layers"] // case["attention_layers"]
    specs = {
        f"layer.{index}": attention if index % every == every - 1 else state
        for index in range(case["layers"])
    }
    planned = _plan(config, specs, case["pool_bytes"])
    tokens, times = kv_cache_utils.get_kv_cache_capacity(config, planned)
    return {
        "block_tokens": cache.block_size, "blocks": planned.num_blocks,
        "groups": len(planned.kv_cache_groups), "kv_cache_tokens": tokens,
        "max_concurrency": times,
    }  # fmt: skip


def _plan(config: Any, specs: dict[str, Any], pool: int) -> Any:
    """The release's KVCacheConfig of one worker."""
    if hasattr(kv_cache_utils, "get_kv_cache_configs"):
        return kv_cache_utils.get_kv_cache_configs(config, [specs], [pool])[0]
    from vllm.v1.core import kv_cache_planning  # noqa: PLC0415 - since 0.33.0

    groups = kv_cache_planning.get_kv_cache_groups(config, specs)
    return kv_cache_planning.get_kv_cache_configs(config, [specs], [pool], groups)[0]


if __name__ == "__main__":
    for entry in json.loads(Path(sys.argv[1]).read_text()):
        sys.stdout.write(f"SIZED {json.dumps(size(entry))}\n")
