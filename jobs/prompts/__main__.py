"""Prompt files by hand: `python -m jobs.prompts make ...`. Exit status: 0 made, 2 cannot."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from jobs.prompts.errors import PromptError
from jobs.prompts.pieces import id_pieces
from jobs.prompts.random_source import random_requests
from jobs.prompts.reader import write_prompt_file
from jobs.prompts.spec import Spec

log = logging.getLogger("prompts")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; wrong values end the program with status 2 and a reason."""
    parser = argparse.ArgumentParser(prog="python -m jobs.prompts", description=__doc__)
    make = parser.add_subparsers(dest="command", required=True).add_parser("make")
    add = make.add_argument
    add("--vocab-size", type=int, required=True, help="token ids below it, without a tokenizer")
    add("--count", type=int, required=True)
    add("--warmup", type=int, default=0)
    add("--input-range", type=int, nargs=2, required=True, metavar=("LO", "HI"))
    add("--output-range", type=int, nargs=2, required=True, metavar=("LO", "HI"))
    add("--seed", type=int, default=0)
    add("--out", type=Path, required=True)
    return parser.parse_args(arguments)


def make(options: argparse.Namespace) -> None:
    """One prompt file; PromptError, OSError."""
    begun = time.monotonic()
    spec = Spec(
        count=options.count,
        warmup=options.warmup,
        input_range=tuple(options.input_range),
        output_range=tuple(options.output_range),
        seed=options.seed,
    )
    spec.check()
    pieces = id_pieces(options.vocab_size)
    requests = random_requests(spec, pieces)
    meta = {**asdict(spec), "pieces": pieces.identity}
    write_prompt_file(options.out, requests, pieces, meta)
    total, took = spec.count + spec.warmup, time.monotonic() - begun
    log.info("%d prompts in %.1f s: %s", total, took, options.out)


def main(arguments: Sequence[str]) -> int:
    """The program; its exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    try:
        make(parse_arguments(arguments))
    except (PromptError, OSError) as error:
        log.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
