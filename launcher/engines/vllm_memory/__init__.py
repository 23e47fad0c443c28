"""vLLM's memory by arithmetic: weights, KV blocks, how many sequences run at once, per release.

Read from the sources of vLLM 0.26.0, 0.27.1, 0.28.0, 0.29.0, 0.30.0, 0.31.0, 0.32.0 and 0.33.0;
docs/capacity.md says what it was held against.
"""

from launcher.engines.vllm_memory.judge import memory_advice, memory_problems
from launcher.engines.vllm_memory.report import capacity_of

__all__ = ["capacity_of", "memory_advice", "memory_problems"]
