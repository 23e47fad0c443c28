"""What changed in vLLM's memory arithmetic between releases; sources are vLLM's own files."""

from __future__ import annotations

from launcher.options.table import numbers


def default_utilization(release: str) -> float:
    """gpu-memory-utilization where no flag says so (config/cache.py): 0.9, since 0.20.0 0.92."""
    return 0.92 if numbers(release) >= (0, 20) else 0.9


def hybrid_prefix_caching(release: str) -> bool:
    """Whether prefix caching is on by default for hybrid models (engine/arg_utils.py): 0.28.0."""
    return numbers(release) >= (0, 28)


def kernel_block_tokens(release: str, device: str) -> int:
    """Smallest block the attention kernel takes, in tokens.

    cuda: 16, FlashInfer's and FlashAttention's (v1/attention/backends/{flashinfer,flash_attn}.py);
    cpu: 16, since 0.29.0 32 (v1/attention/backends/cpu_attn.py).
    """
    return 32 if device == "cpu" and numbers(release) >= (0, 29) else 16


def default_block_tokens(device: str) -> int:
    """block-size where no flag says so: 16 (config/cache.py), on CPU 128 (platforms/cpu.py)."""
    return 128 if device == "cpu" else 16


def rounds_to_kernel(release: str) -> bool:
    """Whether the aligned block is rounded up to the kernel's (platforms/interface.py): 0.32.0."""
    return numbers(release) >= (0, 32)


def checkpoints_prefill(release: str) -> bool:
    """Whether FlashInfer's GDN kernel stores states in mid-prefill under prefix caching: 0.33.0.

    It then wants blocks in multiples of 64 tokens and one more block id per state group
    (model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py, v1/attention/backends/gdn_attn.py).
    """
    return numbers(release) >= (0, 33)


def holds_back_null_block(release: str) -> bool:
    """Whether the start-up check leaves out the null block (v1/core/kv_cache_utils.py): 0.29.0."""
    return numbers(release) >= (0, 29)


def default_max_num_seqs(device: str, memory_gib: float | None, gpus_per_rank: int) -> int | None:
    """max-num-seqs where no flag says so (engine/arg_utils.py, OpenAI server); None: not known.

    1024 on GPUs of 70 GiB and more (A100 left out), else 256; on CPU 128 a process.
    """
    if device == "cpu":
        return 128 * gpus_per_rank
    if memory_gib is None:
        return None
    return 1024 if memory_gib >= 70 else 256
