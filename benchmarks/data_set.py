"""What making the prompts costs: ours, vLLM's own random data set and AIPerf's generator, one run.

    python benchmarks/data_set.py --engine-python PY [--aiperf-python PY] [--out JSON] FOLDER ...

Each peer runs in its own environment's Python, one after the other, on the same tokenizer, and is
asked for prompts of exactly 7,373 tokens. Printed: CPU seconds of all threads per 1,000 prompts
(loading the tokenizer is left out for every peer; our probe, once per tokenizer, is told apart),
and how many prompts have exactly that many tokens for a server, after encoding them again with its
special tokens. Ours makes 40,960 prompts and 5,120 for warm-up of 6,553..8,192 tokens, writes the
file, and joins every prompt's JSON text as a client would; also printed are its seconds and RSS,
and those of the process that exports the tokenizer, once. "native mended" is our way for tokenizers
without pieces that can be joined: each prompt encoded and mended.
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
PEER_PROMPTS = 10
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


def cached_tokenizer(folder: str, scratch: str) -> tuple[Any, Any]:
    """A tokenizer as a run loads it, exported into a new cache, and that cache."""
    sys.path.insert(0, str(REPOSITORY))
    kept = importlib.import_module("jobs.prompts.cache").PromptCache(Path(scratch) / "kept")
    made = importlib.import_module("jobs.prompts.tokenizer").ModelTokenizer(folder, cache=kept)
    return made, kept


def mended(folder: str) -> dict[str, Any]:
    """Our prompts where no pieces can be joined."""
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer, _ = cached_tokenizer(folder, scratch)
        repair = importlib.import_module("jobs.prompts.repair")
        loaded = tokenizer.load()
        words = importlib.import_module("jobs.prompts.words").single_token_words(loaded)
        around = importlib.import_module("jobs.prompts.surround").surround_of(loaded, "plain")
        asked = importlib.import_module("jobs.prompts.spec").Spec(
            count=PEER_PROMPTS, input_range=(TOKENS, TOKENS), output_range=(OUTPUT, OUTPUT)
        )
        begun, wall = time.process_time(), time.monotonic()
        requests, pieces = repair.repaired_requests(asked, words, around, "")
        spent = {"cpu_s": time.process_time() - begun, "wall_s": time.monotonic() - wall}
        counts = [len(ids) for ids in loaded.encode([text.decode() for text in pieces.texts])]
        found = exactness(counts, requests.prompt_tokens.tolist())
        return {"prompts": PEER_PROMPTS, **spent, **found}


def native(folder: str) -> dict[str, Any]:
    """Our prompts for the top point."""
    sys.path.insert(0, str(REPOSITORY))
    making = importlib.import_module("jobs.prompts.making")
    spec = importlib.import_module("jobs.prompts.spec").Spec
    opened = importlib.import_module("jobs.prompts.reader").PromptFile.open
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer, kept = cached_tokenizer(folder, scratch)
        loaded = tokenizer.load()
        exported = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = Path(scratch) / "top.prompts"
        how = {"form": "text", "tokenizer": tokenizer, "verify": "auto"}
        maker = making.Maker(cache=kept, **how)
        begun = time.process_time()
        maker.make(spec(count=1, input_range=(99, 99), output_range=(1, 1)), out)
        probe_s = time.process_time() - begun
        top = spec(count=40960, warmup=5120, input_range=(6553, 8192), output_range=(819, 1024))
        begun, wall = time.process_time(), time.monotonic()
        maker.make(top, out)
        made_s, made_wall_s = time.process_time() - begun, time.monotonic() - wall
        file = opened(out)
        begun, wall = time.process_time(), time.monotonic()
        size = sum(len(file.json_prompt(number)) for number in range(len(file)))
        joined_s, joined_wall_s = time.process_time() - begun, time.monotonic() - wall
        numbers = range(0, len(file), len(file) // CHECKED)
        texts = [file.text(number).decode() for number in numbers]
        counts = [len(ids) for ids in loaded.encode(texts)]
        return {
            "prompts": len(file),
            "cpu_s": made_s + joined_s,
            "wall_s": made_wall_s + joined_wall_s,
            "export_cpu_s": exported.ru_utime + exported.ru_stime,
            "export_rss_mb": exported.ru_maxrss / 1024,
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
    begun, wall = time.process_time(), time.monotonic()
    made = data_sets.RandomDataset(random_seed=0).sample(
        tokenizer=tokenizer, num_requests=PEER_PROMPTS, input_len=TOKENS, output_len=OUTPUT
    )
    spent = {"cpu_s": time.process_time() - begun, "wall_s": time.monotonic() - wall}
    counts = encode_counts(tokenizer, [request.prompt for request in made])
    found = exactness(counts, [TOKENS] * PEER_PROMPTS)
    return {"prompts": PEER_PROMPTS, **spent, **found}


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
    begun, wall = time.process_time(), time.monotonic()
    texts = [maker.generate_prompt(TOKENS) for _ in range(PEER_PROMPTS)]
    spent = {"cpu_s": time.process_time() - begun, "wall_s": time.monotonic() - wall}
    plain = importlib.import_module("transformers").AutoTokenizer.from_pretrained(folder)
    found = exactness(encode_counts(plain, texts), [TOKENS] * PEER_PROMPTS)
    return {"prompts": PEER_PROMPTS, **spent, **found}


PEERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "native": native,
    "native mended": mended,
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


def compare(folder: str, pythons: dict[str, str]) -> dict[str, Any]:
    """All peers on one tokenizer, as a table with ratios to ours; what each found."""
    say(f"\n{Path(folder).name}")
    ours = 0.0
    record: dict[str, Any] = {}
    for peer, python in pythons.items():
        found = record[peer] = measured(python, peer, folder)
        if "error" in found:
            say(f"  {peer:<18} cannot: {found['error']}")
            continue
        each = 1000 * found["cpu_s"] / found["prompts"]
        ours = ours or each
        say(
            f"  {peer:<18} {each:8.3f} CPU s per 1,000 prompts, {each / ours:6.1f} times ours "
            f"({1000 * found['wall_s'] / found['prompts']:.3f} s of wall); "
            f"exact {found['exact']} of {found['checked']}, off by {found['off_percent']:.3f} %; "
            f"RSS {found['rss_mb']:.0f} MB"
        )
        if peer == "native":
            say(
                f"  {'':<18} {found['prompts']} prompts: file made and checked in "
                f"{found['made_cpu_s']:.1f} CPU s ({found['made_wall_s']:.1f} s of wall), "
                f"{found['file_mb']:.0f} MB; joined to {found['text_mb']:.0f} MB of JSON in "
                f"{found['joined_cpu_s']:.1f} CPU s; once per tokenizer: probe "
                f"{found['probe_cpu_s']:.1f} CPU s, export {found['export_cpu_s']:.1f} CPU s and "
                f"{found['export_rss_mb']:.0f} MB in a process of its own"
            )
    return record


def main() -> None:
    """The comparison, or one peer's part of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", choices=sorted(PEERS), help=argparse.SUPPRESS)
    parser.add_argument("--engine-python", default=sys.executable, help="has vllm, transformers")
    parser.add_argument("--aiperf-python", help="has aiperf")
    parser.add_argument("--out", type=Path, help="everything measured, as JSON")
    parser.add_argument("tokenizers", nargs="+")
    options = parser.parse_args()
    if options.peer:
        found = PEERS[options.peer](options.tokenizers[0])
        found["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        say(json.dumps(found))
        return
    peers = ("native", "native mended", "vllm bench random")
    pythons = dict.fromkeys(peers, options.engine_python)
    if options.aiperf_python:
        pythons |= dict.fromkeys(("aiperf sonnet", "aiperf random"), options.aiperf_python)
    record = {Path(folder).name: compare(folder, pythons) for folder in options.tokenizers}
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
