"""Run by the engine environment's own Python: start vLLM's EngineCore for every case, one process.

    python capacity_engine.py cases.json

cases.json holds [[name, [flags...]], ...]. After vLLM's own log lines of a case comes one line
`CASE {...}` with the name, block size, number of blocks and, where the engine stopped, its
error: it had sized its cache (no fp8 kernel on most CPUs), or refused the sizes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

import vllm
import vllm.logger
from vllm.distributed import cleanup_dist_env_and_memory
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor.abstract import Executor


def start(argv: list[str]) -> dict[str, Any]:
    """Parse the flags, build the configuration, start and stop the engine."""
    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    args = AsyncEngineArgs.from_cli_args(parser.parse_args(argv))
    config = args.create_engine_config(UsageContext.OPENAI_API_SERVER)
    cache = config.cache_config
    error = None
    try:
        core = EngineCore(config, Executor.get_class(config), log_stats=False)
        blocks = cache.num_gpu_blocks  # shutdown() forgets it
        core.shutdown()
    except (NotImplementedError, ValueError) as stopped:
        error, blocks = str(stopped), cache.num_gpu_blocks
    return {
        "block_tokens": cache.block_size,
        "blocks": blocks,
        "max_num_seqs": config.scheduler_config.max_num_seqs,
        "error": error,
    }


def say_again() -> None:
    """Let vLLM log a line that an earlier case logged too: it says each text once a process."""
    for function in vars(vllm.logger).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def main(path: str) -> int:
    """All cases, in order; the log of each precedes its CASE line."""
    sys.stderr = sys.stdout
    for name, argv in json.loads(Path(path).read_text()):
        say_again()
        found = {"name": name, "vllm": vllm.__version__, **start(argv)}
        sys.stdout.write(f"\nCASE {json.dumps(found)}\n")
        sys.stdout.flush()
        cleanup_dist_env_and_memory()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
