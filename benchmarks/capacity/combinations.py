"""What vLLM is asked: models, and the flags of one start each."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30
COMMON = ("--load-format", "dummy", "--max-num-batched-tokens", "8192")
HYBRID = ("--language-model-only", "--gdn-prefill-backend", "triton")
EAGER = ("--enforce-eager",)
# Decode graphs without torch.compile: what makes vLLM look at max_num_seqs against the blocks.
GRAPHS = ("--compilation-config", '{"mode":0,"cudagraph_mode":"FULL_DECODE_ONLY"}')
GRAPHS += ("--cudagraph-capture-sizes", "1", "2")
# A small share, so that several can start on one GPU; the bytes decide about the cache.
SHARED = ("--gpu-memory-utilization", "0.15")
EIGHT = (*SHARED, "--kv-cache-memory-bytes", str(8 * GIB))
TWO = (*SHARED, "--kv-cache-memory-bytes", str(2 * GIB))
NO_CACHE, CACHE = ("--no-enable-prefix-caching",), ("--enable-prefix-caching",)


@dataclass(frozen=True)
class Combination:
    """One start of the engine; `alone` where free GPU memory is part of the answer."""

    name: str
    model: str
    flags: tuple[str, ...]
    alone: bool = False
    steps: bool = False

    def argv(self, folder: str) -> list[str]:
        """The flags of `vllm serve` for it."""
        hybrid = HYBRID if self.model.startswith("hybrid") else ()
        moe = hybrid if self.model.endswith("dense") else (*hybrid, "--moe-backend", "triton")
        kind = moe if hybrid else ()
        return ["--model", f"{folder}/{self.model}", *COMMON, *kind, *self.flags]


def _kv(dtype: str, ssm: str | None, length: int, block: int | None = None) -> tuple[str, ...]:
    flags = ("--kv-cache-dtype", dtype, "--max-model-len", str(length))
    flags += ("--mamba-ssm-cache-dtype", ssm) if ssm else ()
    return (*flags, "--block-size", str(block)) if block else flags


COMBINATIONS = (
    Combination(
        "01", "hybrid-8", (*_kv("auto", "auto", 16384), *EIGHT, *NO_CACHE, *EAGER), steps=True
    ),
    Combination(
        "02", "hybrid-8", (*_kv("fp8", "bfloat16", 9472), *EIGHT, *NO_CACHE, *EAGER), steps=True
    ),
    Combination("03", "hybrid-8", (*_kv("fp8", "float32", 262144), *EIGHT, *NO_CACHE, *EAGER)),
    Combination("04", "hybrid-8", (*_kv("auto", "bfloat16", 10240, 16), *EIGHT, *NO_CACHE, *EAGER)),
    Combination("05", "hybrid-8", (*_kv("fp8", "bfloat16", 10240, 128), *EIGHT, *NO_CACHE, *EAGER)),
    Combination("06", "hybrid-4", (*_kv("fp8", "bfloat16", 9999, 64), *EIGHT, *NO_CACHE, *EAGER)),
    Combination(
        "07", "hybrid-12", (*_kv("auto", "bfloat16", 16384, 256), *EIGHT, *NO_CACHE, *EAGER)
    ),
    Combination(
        "08", "hybrid-7-uneven", (*_kv("fp8", "float16", 16384), *EIGHT, *NO_CACHE, *EAGER)
    ),
    Combination(
        "09", "hybrid-9-uneven", (*_kv("auto", "float32", 32768), *EIGHT, *NO_CACHE, *EAGER)
    ),
    Combination("10", "hybrid-8", (*_kv("fp8", "bfloat16", 9472), *EIGHT, *CACHE, *EAGER)),
    Combination("11", "hybrid-12", (*_kv("auto", "float32", 20000, 32), *EIGHT, *CACHE, *EAGER)),
    Combination(
        "12", "hybrid-8-dense", (*_kv("auto", "float32", 16384), *EIGHT, *NO_CACHE, *EAGER)
    ),
    Combination("13", "attention-4", (*_kv("auto", None, 16384), *EIGHT, *CACHE, *EAGER)),
    Combination(
        "14",
        "attention-4",
        (*_kv("fp8", None, 10000, 64), *EIGHT, *CACHE, *EAGER, "--dtype", "float16"),
    ),
    Combination("15", "attention-4", (*_kv("auto", None, 40960, 128), *EIGHT, *NO_CACHE, *EAGER)),
    Combination(
        "16",
        "hybrid-8",
        (
            *_kv("fp8", "bfloat16", 9472),
            "--num-gpu-blocks-override",
            "100",
            *EIGHT,
            *NO_CACHE,
            *EAGER,
        ),
    ),
    Combination(
        "17",
        "hybrid-8",
        (
            *_kv("fp8", "bfloat16", 9472),
            "--mamba-cache-dtype",
            "float32",
            *EIGHT,
            *NO_CACHE,
            *EAGER,
        ),
    ),
    # 2 GiB in pages of 4176 tokens x 1024 bytes in groups of 2 layers: 251 blocks.
    Combination("18", "hybrid-8", (*_kv("fp8", "float32", 9472), *TWO, *NO_CACHE, *GRAPHS)),
    Combination(
        "19",
        "hybrid-8",
        (*_kv("fp8", "float32", 9472), *TWO, *NO_CACHE, *GRAPHS, "--max-num-seqs", "252"),
    ),
    Combination(
        "20",
        "hybrid-8",
        (*_kv("fp8", "float32", 9472), *TWO, *NO_CACHE, *GRAPHS, "--max-num-seqs", "251"),
    ),
    Combination(
        "21",
        "hybrid-8",
        (
            *_kv("auto", "float32", 262144),
            *SHARED,
            "--kv-cache-memory-bytes",
            str(GIB),
            *NO_CACHE,
            *EAGER,
        ),
    ),
    Combination(
        "22",
        "hybrid-8",
        (*_kv("fp8", "bfloat16", 9472), "--gpu-memory-utilization", "0.5", *NO_CACHE, *EAGER),
        alone=True,
    ),
    Combination("23", "hybrid-8", (*_kv("auto", "float32", 9472), *NO_CACHE, *GRAPHS), alone=True),
    Combination(
        "24",
        "attention-4",
        (*_kv("fp8", None, 16384), "--gpu-memory-utilization", "0.3", *EAGER),
        alone=True,
    ),
    Combination(
        "25",
        "hybrid-8",
        (
            *_kv("fp8", "bfloat16", 9472),
            *EIGHT,
            *NO_CACHE,
            *EAGER,
            "--gdn-prefill-backend",
            "flashinfer",
        ),
        steps=True,
    ),
)
