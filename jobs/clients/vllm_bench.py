"""`vllm bench serve` with prompts made beforehand and held at the gate.

For the engine's own Python: of this package it imports the prompts' reader only.

    python -m jobs.clients.vllm_bench --gate DIR --name c64 --prompts FILE --result FILE
        -- <arguments of vllm bench serve>

The prompt file (docs/prompts.md) is waited for: whoever makes it renames it there whole.

The arguments after -- go to vLLM's own parser and the measurement is vLLM's own; what is replaced
is where its prompts come from (vllm.benchmarks.serve.get_samples), and its warm-up, which would
send the first measured prompt again and again. The result is vLLM's result JSON plus
`error_counts`; the per-request arrays go to <result>.requests.json. Exit codes: 0 result
written, 2 cannot run, 3 told to stop by <gate>/<name>.stop.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from jobs.clients.vllm_gate import POLL_S, Gate, GateStopError, write_text
from jobs.clients.vllm_module import BenchError
from jobs.clients.vllm_result import finite, split_result
from jobs.clients.vllm_serve import VllmBench, load_prompts

EXIT_CANNOT = 2
EXIT_STOPPED = 3

log = logging.getLogger("vllm_bench")


def parse_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and the words for vLLM's parser without a leading `vllm bench serve`."""
    words = list(arguments)
    if "--" not in words:
        words.append("--")
    cut = words.index("--")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--gate", type=Path, required=True, help="folder of the .ready, .go and .stop files")
    add("--name", required=True, help="name of those files")
    add("--prompts", type=Path, required=True, help="prompt file of text, waited for")
    add("--result", type=Path, required=True)
    add("--warmup-rate", type=float, help="requests a second of the warm-up; else a closed loop")
    add("--vllm-bench-json", type=Path, help="vLLM's own result file, with its arrays")
    options = parser.parse_args(words[:cut])
    bench = words[cut + 1 :]
    for lead in ("vllm", "bench", "serve"):
        if bench[:1] == [lead]:
            del bench[0]
    if not bench:
        parser.error("no arguments of vllm bench serve after --")
    return options, bench


def wait_for_prompts(path: Path, gate: Gate) -> None:
    """Returns when the prompt file is there."""
    while not path.exists():
        gate.check_stop()
        time.sleep(POLL_S)


def measure(options: argparse.Namespace, bench: list[str]) -> None:
    """Import vLLM while the prompts are made, run at the gate, write the result."""
    gate = Gate(options.gate, options.name)
    gate.check_stop()
    runner = VllmBench(gate, options.warmup_rate)
    args = runner.parse(bench)
    wait_for_prompts(options.prompts, gate)
    runner.warmup, runner.measured = load_prompts(options.prompts, args.num_prompts)
    result = runner.run(args)
    kept, arrays = split_result(result)
    arrays["asked_input_lens"] = [prompt.tokens for prompt in runner.measured]
    arrays["asked_output_lens"] = [prompt.output_tokens for prompt in runner.measured]
    kept["warmup_requests"] = len(runner.warmup)
    kept["warmup_error_counts"] = runner.warmup_errors
    kept["vllm_version"] = runner.version
    kept["load"] = runner.load
    if options.vllm_bench_json:
        own = {key: finite(value) for key, value in result.items() if key != "generated_texts"}
        options.vllm_bench_json.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(options.vllm_bench_json, json.dumps(own, default=str) + "\n")
    write_text(options.result.with_suffix(".requests.json"), json.dumps(arrays))
    write_text(options.result, json.dumps(kept, indent=1, default=str) + "\n")
    log.info("%d of %d requests done, %s", kept["completed"], args.num_prompts, options.result)


def main(arguments: Sequence[str]) -> int:
    """Exit code; every refusal is one line on stderr."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    options, bench = parse_arguments(arguments)
    try:
        measure(options, bench)
    except GateStopError as stop:
        log.info("%s: %s", options.name, stop)
        return EXIT_STOPPED
    except (BenchError, OSError, ValueError) as error:
        log.error("%s: %s", options.name, error)
        return EXIT_CANNOT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
