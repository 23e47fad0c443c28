"""Words in vLLM's logs: start-up phases, and lines that explain nothing."""

from __future__ import annotations

import re

PHASES = ("launch", "import", "config", "engine", "weights", "compile", "kv", "graphs", "ready")

PERCENT = re.compile(r"(\d{1,3})%")

MARKS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (phase, re.compile(words))
    for phase, words in (
        ("ready", r"Application startup complete|Starting vLLM server on|init engine \(.*took"),
        ("graphs", r"Captur(?:ing|e) .*(?:CUDA|cuda) ?graphs?|[Gg]raph capturing finished"),
        (
            "kv",
            r"KV cache size: |Available KV cache memory|for KV cache on node|Registering KV_Caches",
        ),
        (
            "compile",
            r"Starting torch\.compile|torch\.compile (?:takes|took|and)|Dynamo bytecode transform"
            r"|Compiling a graph|Cache the graph|Directly load (?:the )?(?:compiled|AOT)"
            r"|Warming up model for the compilation",
        ),
        (
            "weights",
            r"Starting to load model|Loading model from scratch|(?:checkpoint|loading) shards:"
            r"|Loading safetensors using|Loading weights took|Model loading took"
            r"|Initializing model took",
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
