"""Words in vLLM's logs: start-up phases, lines that explain nothing, and known causes."""

from __future__ import annotations

import re

from jobs.engines.dialect import Cause

PHASES = ("launch", "import", "config", "engine", "weights", "compile", "kv", "graphs", "ready")

PERCENT = re.compile(r"(\d{1,3})%")

MARKS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (phase, re.compile(words))
    for phase, words in (
        ("ready", r"Application startup complete|Starting vLLM server on|init engine \(.*took"),
        ("graphs", r"Captur(?:ing|e) .*(?:CUDA|cuda) ?graphs?|Graph capturing finished"),
        (
            "kv",
            r"KV cache size: |Available KV cache memory|for KV cache on node|Registering KV_Caches",
        ),
        (
            "compile",
            r"torch\.compile takes|Dynamo bytecode transform|Compiling a graph"
            r"|Cache the graph|Directly load (?:the )?(?:compiled|AOT)",
        ),
        (
            "weights",
            r"Starting to load model|checkpoint shards:|Loading weights took"
            r"|Model loading took|Initializing model took",
        ),
        ("engine", r"Initializing a V1 LLM engine|data parallel engine\(s\) in headless mode"),
        ("config", r"non-default args|Resolved architecture|Using max model len"),
        ("import", r"\S"),
    )
)
"""From the end of a start-up to its beginning; any other output means the imports run."""

NOISE = re.compile(
    r"\"(?:GET|POST|HEAD) /\S* HTTP|Route: /|Avg prompt throughput|KV Transfer metrics"
    r"|[▀▄█]|Waiting for application startup|Started server process|FutureWarning"
)

CAUSES: tuple[Cause, ...] = tuple(
    Cause(re.compile(words, re.IGNORECASE), meaning)
    for words, meaning in (
        (
            r"Local block size \d+ is not divisible by remote",
            "prefill and decode chose different KV block sizes: set the same --block-size on both",
        ),
        (
            r"CUDA out of memory|OutOfMemoryError|No available memory for the cache blocks",
            "GPU memory: lower gpu-memory-utilization, max-num-seqs or max-num-batched-tokens",
        ),
        (
            r"exceeds available Mamba cache blocks",
            "more sequences than state blocks: lower --max-num-seqs or use a 16-bit SSM cache",
        ),
        (
            r"Timed out waiting for (?:new )?engine|engine.*ready timeout",
            "loading took longer than VLLM_ENGINE_READY_TIMEOUT_S: raise budgets.start_s",
        ),
        (
            r"CUDA_ERROR_NOT_PERMITTED",
            "no NVLink fabric access: IMEX channel missing, or nodes of different NVLink domains",
        ),
        (
            r"compatibility.{0,20}mismatch|check_nixl_version",
            "prefill and decode differ in image, model string, KV dtype or NIXL version",
        ),
        (
            r"(?:requires?|needs) (?:the )?DS (?:conv )?(?:state )?layout",
            "hybrid models need VLLM_SSM_CONV_STATE_LAYOUT=DS on both roles",
        ),
        (
            r"handshake_(?:setup_)?failed",
            "decode could not reach prefill's side channel: check VLLM_NIXL_SIDE_CHANNEL_HOST",
        ),
        (
            r"engine[_ ]id.*(?:mismatch|does not match)",
            "a side channel is left on localhost: VLLM_NIXL_SIDE_CHANNEL_HOST must be the node's",
        ),
        (
            r"Connection (?:closed by peer|was likely closed)|Failed to recv, got 0 bytes",
            "another rank went away first: look for the process that ended earliest",
        ),
        (
            r"Unable to find address for: \^",
            "GLOO_SOCKET_IFNAME takes device names only, no exclusion list such as ^lo",
        ),
        (
            r"Using the loopback address as fallback|Gloo connectFullMesh failed",
            "Gloo fell back to loopback: set GLOO_SOCKET_IFNAME to the device between the nodes",
        ),
        (
            r"Releasing expired KV blocks|Potentially invalid KV blocks",
            "KV lease ran out before decode read it: raise kv_lease_duration or lower concurrency",
        ),
        (
            r"corrupted compilation artifact",
            "engines share a compile cache: give every process its own VLLM_CACHE_ROOT",
        ),
        (
            r"unrecognized arguments|invalid choice: ",
            "this engine release does not know one of the flags",
        ),
    )
)
