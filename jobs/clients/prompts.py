"""Benchmark prompts as text of an exact token length, made before the servers are up.

Run by the engine's own Python as a script, next to vllm_bench.py; it imports nothing of this
package. One JSON object a line, warm-up prompts first:
{"prompt": text, "prompt_len": tokens as the server counts them, "output_len": tokens,
 "warmup": bool}
The same arguments give the same bytes, whatever the number of processes: each prompt has a random
stream of its own, drawn from the seed, its kind and its index. Exit codes: 0 written, 2 cannot.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol

MAX_PROCESSES = 32
CHUNK = 32
MIN_PER_PROCESS = 128  # fewer do not repay loading the tokenizer once more
MIN_WORDS = 256
MAX_REPAIRS = 10
REPORT_EVERY_S = 10.0
SPACE_MARKS = ("Ġ", "▁", " ")

log = logging.getLogger("prompts")


class PromptError(RuntimeError):
    """These prompts cannot be made; the text is the whole message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSpec:
    """What decides the bytes of a prompt file. Ranges are inclusive token counts."""

    source: str
    tokenizer: str
    trust_remote_code: bool
    count: int
    warmup: int
    input_range: tuple[int, int]
    output_range: tuple[int, int]
    seed: int


class TextTokenizer(Protocol):
    """What a maker needs of a tokenizer; `encode` adds special tokens as the server does."""

    name: str

    def encode(self, text: str) -> list[int]: ...

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]: ...

    def tokens(self) -> list[tuple[int, str]]: ...


Maker = Callable[[Random, int], str]


class TransformersTokenizer:
    """The model's tokenizer as the server loads it."""

    def __init__(self, name: str, trust_remote_code: bool) -> None:
        self.name = name
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            load = importlib.import_module("transformers").AutoTokenizer.from_pretrained
            self._tokenizer: Any = load(name, trust_remote_code=trust_remote_code)
        except (OSError, ValueError, ImportError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise PromptError(f"tokenizer {name} cannot be loaded: {reason}") from error

    def encode(self, text: str) -> list[int]:
        """Token ids with the special tokens a server adds to a completion prompt."""
        ids: list[int] = self._tokenizer(text, verbose=False)["input_ids"]
        return ids

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text without special tokens."""
        ids: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return ids

    def tokens(self) -> list[tuple[int, str]]:
        """Every ordinary token: its id and its own spelling."""
        special = set(self._tokenizer.all_special_ids)
        ids = [i for i in range(len(self._tokenizer)) if i not in special]
        spelled = map(_spelling, self._tokenizer.convert_ids_to_tokens(ids))
        return list(zip(ids, spelled, strict=True))


def _spelling(token: Any) -> str:
    """A token as text; some tokenizers spell theirs in bytes."""
    return token.decode("utf-8", "replace") if isinstance(token, bytes) else str(token or "")


class RandomWords:
    """Prompts of random words, each of them one token of the vocabulary.

    Such words stay one token beside each other in practically every tokenizer, so a prompt of n
    words has n tokens; each prompt is encoded again all the same, and repaired where it is not so.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self.tokenizer = tokenizer
        self.words = single_token_words(tokenizer)
        self.special = len(tokenizer.encode(""))

    def __call__(self, rng: Random, tokens: int) -> str:
        """A prompt of exactly `tokens` tokens, special tokens included."""
        words = rng.choices(self.words, k=max(tokens - self.special, 0))
        for _ in range(MAX_REPAIRS):
            prompt = "".join(words)
            found = len(self.tokenizer.encode(prompt))
            if found == tokens:
                return prompt
            if found < tokens:
                words += rng.choices(self.words, k=tokens - found)
            else:
                del words[len(words) - min(found - tokens, len(words)) :]
        raise PromptError(
            f"tokenizer {self.tokenizer.name}: no prompt of exactly {tokens} tokens after "
            f"{MAX_REPAIRS} repairs (last had {found}, {self.special} of them special)"
        )


def single_token_words(tokenizer: TextTokenizer) -> list[str]:
    """Words of ASCII letters with their leading space that the tokenizer encodes as one token."""
    words = []
    ids = []
    for token, spelling in tokenizer.tokens():
        mark = next((m for m in SPACE_MARKS if spelling.startswith(m)), "")
        word = spelling.removeprefix(mark)
        if mark and word.isascii() and word.isalpha():
            words.append(" " + word)
            ids.append([token])
    # A tokenizer that puts a space in front of every text must be asked without ours.
    for ask in (words, [word[1:] for word in words]):
        encoded = tokenizer.encode_plain(ask) if ask else []
        safe = [w for w, id_, e in zip(words, ids, encoded, strict=False) if id_ == e]
        if len(safe) >= MIN_WORDS:
            return safe
    raise PromptError(
        f"tokenizer {tokenizer.name}: {len(safe)} words that are one token, random prompts need "
        f"{MIN_WORDS}: name another --prompt-source"
    )


MAKERS: dict[str, Callable[[TextTokenizer], Maker]] = {"random": RandomWords}


def make_record(spec: PromptSpec, maker: Maker, number: int) -> str:
    """Line `number` of the file: warm-up prompts come first."""
    warmup = number < spec.warmup
    kind, index = ("warmup", number) if warmup else ("measured", number - spec.warmup)
    rng = Random(f"{spec.source}/{spec.seed}/{kind}/{index}")
    tokens = between(rng, spec.input_range)
    output = between(rng, spec.output_range)
    prompt = maker(rng, tokens)
    lengths = {"prompt_len": tokens, "output_len": output}
    return json.dumps({"prompt": prompt, **lengths, "warmup": warmup})


def between(rng: Random, bounds: tuple[int, int]) -> int:
    """A uniform integer, both bounds included."""
    low, high = bounds
    return low + int(rng.random() * (high - low + 1))


_makers: dict[PromptSpec, Maker] = {}


def make_chunk(spec: PromptSpec, numbers: Sequence[int]) -> list[str]:
    """Some lines of the file; a process loads the tokenizer for its first ones."""
    if spec not in _makers:
        tokenizer = TransformersTokenizer(spec.tokenizer, spec.trust_remote_code)
        _makers[spec] = MAKERS[spec.source](tokenizer)
    return [make_record(spec, _makers[spec], number) for number in numbers]


def make_lines(spec: PromptSpec, processes: int) -> Iterator[str]:
    """All lines in order, made by `processes` processes."""
    total = spec.warmup + spec.count
    chunks = [range(i, min(i + CHUNK, total)) for i in range(0, total, CHUNK)]
    if processes == 1:
        for chunk in chunks:
            yield from make_chunk(spec, chunk)
        return
    # Spawned, not forked: tokenizers start threads, which do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context) as pool:
        try:
            for lines in pool.map(make_chunk, itertools.repeat(spec), chunks):
                yield from lines
        except BrokenProcessPool as error:
            raise PromptError(f"a prompt process died (out of memory?): {error}") from error


def write_prompts(spec: PromptSpec, out: Path, processes: int) -> None:
    """The prompt file and, beside it, what it was made from; both whole or not at all."""
    total = spec.warmup + spec.count
    aside = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    started = told = time.monotonic()
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with aside.open("w", encoding="utf-8") as stream:
            for number, line in enumerate(make_lines(spec, processes), 1):
                stream.write(line + "\n")
                if time.monotonic() - told > REPORT_EVERY_S:
                    told = time.monotonic()
                    log.info("%d of %d prompts after %.0f s", number, total, told - started)
        aside.replace(out)
    finally:
        aside.unlink(missing_ok=True)
    spec_path(out).write_text(json.dumps(asdict(spec), indent=1) + "\n", encoding="utf-8")
    took = time.monotonic() - started
    log.info("%d prompts in %.1f s by %d processes: %s", total, took, processes, out)


def spec_path(out: Path) -> Path:
    """The file beside a prompt file that says what it was made from."""
    return out.with_suffix(".spec.json")


def is_made(spec: PromptSpec, out: Path) -> bool:
    """Whether `out` is there already and was made from the same arguments."""
    try:
        found = json.loads(spec_path(out).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return False
    return out.exists() and found == json.loads(json.dumps(asdict(spec)))


def default_processes(total: int) -> int:
    """One process a usable core, at most 32, fewer when there is little to do."""
    return max(1, min(len(os.sched_getaffinity(0)), MAX_PROCESSES, total // MIN_PER_PROCESS))


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; wrong values end the program with status 2 and a reason."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--source", default="random", choices=sorted(MAKERS), help="which maker draws the prompts")
    add("--tokenizer", required=True)
    add("--trust-remote-code", action="store_true")
    add("--count", type=int, required=True)
    add("--warmup", type=int, default=0)
    add("--input-range", type=int, nargs=2, required=True, metavar=("LO", "HI"))
    add("--output-range", type=int, nargs=2, required=True, metavar=("LO", "HI"))
    add("--seed", type=int, default=0)
    add("--out", type=Path, required=True)
    add("--processes", type=int, default=0, help="0: one a core, at most 32")
    options = parser.parse_args(arguments)
    for name in ("input_range", "output_range"):
        low, high = getattr(options, name)
        if not 1 <= low <= high:
            parser.error(f"--{name.replace('_', '-')} {low} {high}: expected 1 <= LO <= HI")
    if options.count < 1 or options.warmup < 0:
        parser.error(f"--count {options.count} --warmup {options.warmup}: at least 1 and 0")
    return options


def main(arguments: Sequence[str]) -> int:
    """Write the file unless it is there already."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    options = parse_arguments(arguments)
    spec = PromptSpec(
        source=options.source,
        tokenizer=options.tokenizer,
        trust_remote_code=options.trust_remote_code,
        count=options.count,
        warmup=options.warmup,
        input_range=tuple(options.input_range),
        output_range=tuple(options.output_range),
        seed=options.seed,
    )
    if is_made(spec, options.out):
        log.info("%s is there already", options.out)
        return 0
    processes = options.processes or default_processes(spec.count + spec.warmup)
    try:
        write_prompts(spec, options.out, processes)
    except (PromptError, OSError) as error:
        log.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
