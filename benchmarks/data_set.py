"""What making the prompts costs: ours, vLLM's own random data set and AIPerf's generator, one run.

    python benchmarks/data_set.py --engine-python PY [--aiperf-python PY] TOKENIZER_FOLDER ...

Each peer runs in its own environment's Python, one after the other, on the same tokenizer, and is
asked for prompts of exactly 7,373 tokens. Printed: CPU seconds of all threads per 1,000 prompts
(loading the tokenizer is left out for every peer; our probe, once per tokenizer, is told apart),
and how many prompts have exactly that many tokens for a server, after encoding them again with its
special tokens. Ours makes 40,960 prompts and 5,120 for warm-up of 6,553..8,192 tokens, writes the
file, and joins every prompt's JSON text as a client would; also printed are its seconds and RSS.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TOKENS = 7373
OUTPUT = 922
PEER_PROMPTS = 20
CHECKED = 64
REPOSITORY = Path(__file__).resolve().parent.parent


def encode_counts(tokenizer: Any, texts: Sequence[str]) -> list[int]:
    """Tokens a server counts for each text."""
    return [len(ids) for ids in tokenizer(list(texts), verbose=False)["input_ids"]]


def exactness(counts: Sequence[int], wanted: Sequence[int]) -> dict[str, Any]:
    """How many are exact, and the mean deviation in per cent."""
    off = sum(abs(c - w) for c, w in zip(counts, wanted, strict=True)) / sum(wanted)
    same = sum(c == w for c, w in zip(counts, wanted, strict=True))
    return {"exact": same, "checked": len(counts), "off_percent": 100 * off}


def native(folder: str) -> dict[str, Any]:
    """Our prompts for the top point."""
    sys.path.insert(0, str(REPOSITORY))
    making = importlib.import_module("jobs.prompts.making")
    tokenizer = importlib.import_module("jobs.prompts.tokenizer").ModelTokenizer(folder)
    cache = importlib.import_module("jobs.prompts.cache").PromptCache
    spec = importlib.import_module("jobs.prompts.spec").Spec
    opened = importlib.import_module("jobs.prompts.reader").PromptFile.open
    loaded = tokenizer.load()
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "top.prompts"
        how = {"form": "text", "tokenizer": tokenizer, "verify": "auto"}
        maker = making.Maker(cache=cache(Path(scratch) / "kept"), **how)
        begun = time.process_time()
        maker.make(spec(count=1, input_range=(99, 99), output_range=(1, 1)), out)
        probe_s = time.process_time() - begun
        top = spec(count=40960, warmup=5120, input_range=(6553, 8192), output_range=(819, 1024))
        begun, wall = time.process_time(), time.monotonic()
        maker.make(top, out)
        made_s, made_wall_s = time.process_time() - begun, time.monotonic() - wall
        file = opened(out)
        begun = time.process_time()
        size = sum(len(file.json_prompt(number)) for number in range(len(file)))
        joined_s = time.process_time() - begun
        numbers = range(0, len(file), len(file) // CHECKED)
        texts = [file.text(number).decode() for number in numbers]
        counts = [len(ids) for ids in loaded.encode(texts)]
        return {
            "prompts": len(file),
            "cpu_s": made_s + joined_s,
            "probe_cpu_s": probe_s,
            "made_cpu_s": made_s,
            "made_wall_s": made_wall_s,
            "joined_cpu_s": joined_s,
            "file_mb": out.stat().st_size / 1e6,
            "text_mb": size / 1e6,
            **exactness(counts, file.prompt_tokens[list(numbers)].tolist()),
        }


def vllm(folder: str) -> dict[str, Any]:
    """What `vllm bench serve --dataset-name random` does before it sends anything."""
    data_sets = importlib.import_module("vllm.benchmarks.datasets")
    tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(folder)
    begun = time.process_time()
    made = data_sets.RandomDataset(random_seed=0).sample(
        tokenizer=tokenizer, num_requests=PEER_PROMPTS, input_len=TOKENS, output_len=OUTPUT
    )
    spent = time.process_time() - begun
    counts = encode_counts(tokenizer, [request.prompt for request in made])
    found = exactness(counts, [TOKENS] * PEER_PROMPTS)
    return {"prompts": PEER_PROMPTS, "cpu_s": spent, **found}


def aiperf(folder: str, corpus: str) -> dict[str, Any]:
    """AIPerf's synthetic prompts of a fixed length, from its default corpus or a random one."""
    importlib.import_module("aiperf.common.random_generator").init(0)
    module = importlib.import_module("aiperf.dataset.generator.prompt")
    wrapper = importlib.import_module("aiperf.common.tokenizer").Tokenizer
    tokenizer = wrapper.from_pretrained(folder, resolve_alias=False)
    kinds = importlib.import_module("aiperf.common.enums").PromptCorpus
    maker = module.PromptGenerator(
        prompts=None, prefix_prompts=None, tokenizer=tokenizer, corpus=kinds(corpus)
    )
    begun = time.process_time()
    texts = [maker.generate_prompt(TOKENS) for _ in range(PEER_PROMPTS)]
    spent = time.process_time() - begun
    plain = importlib.import_module("transformers").AutoTokenizer.from_pretrained(folder)
    found = exactness(encode_counts(plain, texts), [TOKENS] * PEER_PROMPTS)
    return {"prompts": PEER_PROMPTS, "cpu_s": spent, **found}


PEERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "native": native,
    "vllm bench random": vllm,
    "aiperf sonnet": lambda folder: aiperf(folder, "sonnet"),
    "aiperf random": lambda folder: aiperf(folder, "random"),
}


def measured(python: str, peer: str, folder: str) -> dict[str, Any]:
    """One peer on one tokenizer, in a process of its own."""
    command = [python, __file__, "--peer", peer, folder]
    # Told that it is offline, AIPerf takes a folder for the name of a repository.
    offline = {} if peer.startswith("aiperf") else {"HF_HUB_OFFLINE": "1"}
    environment = {**os.environ, **offline}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip() or "no reason given").splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def say(line: str) -> None:
    """One line of the result, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def compare(folder: str, pythons: dict[str, str]) -> None:
    """All peers on one tokenizer, as a table with ratios to ours."""
    say(f"\n{Path(folder).name}")
    ours = 0.0
    for peer, python in pythons.items():
        found = measured(python, peer, folder)
        if "error" in found:
            say(f"  {peer:<18} cannot: {found['error']}")
            continue
        each = 1000 * found["cpu_s"] / found["prompts"]
        ours = ours or each
        say(
            f"  {peer:<18} {each:8.3f} CPU s per 1,000 prompts, {each / ours:6.1f} times ours; "
            f"exact {found['exact']} of {found['checked']}, off by {found['off_percent']:.3f} %; "
            f"RSS {found['rss_mb']:.0f} MB"
        )
        if peer == "native":
            say(
                f"  {'':<18} {found['prompts']} prompts: file made and checked in "
                f"{found['made_cpu_s']:.1f} CPU s ({found['made_wall_s']:.1f} s of wall), "
                f"{found['file_mb']:.0f} MB; joined to {found['text_mb']:.0f} MB of JSON in "
                f"{found['joined_cpu_s']:.1f} CPU s; probe, once per tokenizer: "
                f"{found['probe_cpu_s']:.1f} CPU s"
            )


def main() -> None:
    """The comparison, or one peer's part of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", choices=sorted(PEERS), help=argparse.SUPPRESS)
    parser.add_argument("--engine-python", default=sys.executable, help="has vllm, transformers")
    parser.add_argument("--aiperf-python", help="has aiperf")
    parser.add_argument("tokenizers", nargs="+")
    options = parser.parse_args()
    if options.peer:
        found = PEERS[options.peer](options.tokenizers[0])
        found["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        say(json.dumps(found))
        return
    pythons = dict.fromkeys(("native", "vllm bench random"), options.engine_python)
    if options.aiperf_python:
        pythons |= dict.fromkeys(("aiperf sonnet", "aiperf random"), options.aiperf_python)
    for folder in options.tokenizers:
        compare(folder, pythons)


if __name__ == "__main__":
    main()
