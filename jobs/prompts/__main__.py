"""Makes prompt files: those of a run, or one by hand.

    python -m jobs.prompts run RUN_DIR          all points of a run, as its run.json says
    python -m jobs.prompts make --out FILE ...  one file
    python -m jobs.prompts show FILE [--number N | --jsonl OUT]

Exit status: 0 made or shown, 2 cannot.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.prompts.cache import PromptCache
from jobs.prompts.errors import PromptError
from jobs.prompts.making import Maker
from jobs.prompts.orders import make_files, read_order
from jobs.prompts.reader import PromptFile
from jobs.prompts.spec import SOURCES, Spec
from jobs.prompts.surround import CONTEXTS
from jobs.prompts.tokenizer import ModelTokenizer
from jobs.prompts.vllm_lines import write_lines

log = logging.getLogger("prompts")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; wrong values end the program with status 2 and a reason."""
    parser = argparse.ArgumentParser(
        prog="python -m jobs.prompts", description=(__doc__ or "").splitlines()[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="the files of all points of a run")
    run.add_argument("run_dir", type=Path)
    _make_options(commands.add_parser("make", help="one file"))
    show = commands.add_parser("show", help="what a file holds")
    show.add_argument("file", type=Path)
    show.add_argument("--number", type=int, help="the text, or ids, of one request")
    show.add_argument("--jsonl", type=Path, help="write all as JSON lines for vllm bench serve")
    return parser.parse_args(arguments)


def _make_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--tokenizer", help="folder of the model's tokenizer; without it token ids are drawn")
    add("--trust-remote-code", action="store_true")
    add("--tokenizer-mode", default="auto", help="the server's own option")
    add("--vocab-size", type=int, default=0, help="token ids are drawn below it")
    add("--context", default="plain", choices=CONTEXTS, help="template: in the chat template")
    add("--source", default="random", choices=SOURCES)
    add("--count", type=int, required=True, help="measured requests")
    add("--warmup", type=int, default=0, help="further requests before them")
    add("--input-range", type=int, nargs=2, default=(1, 1), metavar=("LO", "HI"))
    add("--output-range", type=int, nargs=2, default=(1, 1), metavar=("LO", "HI"))
    add("--seed", type=int, default=0)
    add("--prefix-tokens", type=int, default=0, help="shared_prefix: tokens shared")
    add("--prefix-groups", type=int, default=1, help="shared_prefix: different prefixes")
    add("--turns", type=int, default=1, help="multi_turn: messages of a session")
    add("--wait-s", type=float, default=0.0, help="multi_turn: pause before a message")
    add("--trace", type=Path, help="trace: file of JSON lines, Mooncake's format")
    add("--trace-speed", type=float, default=1.0)
    add("--verify", default="auto", help="auto, all, or how many are encoded again")
    add("--cache", type=Path, help="folder of kept files; default: beside --out")
    add("--out", type=Path, required=True)


def make(options: argparse.Namespace) -> None:
    """One prompt file; PromptError, OSError."""
    spec = Spec.of(
        {
            "source": options.source,
            "count": options.count,
            "warmup": options.warmup,
            "input_range": options.input_range,
            "output_range": options.output_range,
            "seed": options.seed,
            "prefix_tokens": options.prefix_tokens,
            "prefix_groups": options.prefix_groups,
            "turns": options.turns,
            "wait_s": options.wait_s,
            "trace_path": str(options.trace or ""),
            "trace_speed": options.trace_speed,
        }
    )
    name = options.tokenizer
    cache = PromptCache(options.cache or options.out.parent / "prompt-cache")
    maker = Maker(
        cache=cache,
        form="text" if name else "ids",
        context="messages" if name and options.source == "multi_turn" else options.context,
        tokenizer=ModelTokenizer(name, options.trust_remote_code, cache, options.tokenizer_mode)
        if name
        else None,
        vocab_size=options.vocab_size,
        verify=options.verify,
    )
    maker.make(spec, options.out)


def show(options: argparse.Namespace) -> None:
    """What a file holds, on stdout; PromptError, OSError."""
    file = PromptFile.open(options.file)
    if options.jsonl:
        write_lines(file, options.jsonl)
        return
    if options.number is None:
        print(json.dumps(dict(file.meta), indent=1))  # noqa: T201
        return
    try:
        print(file.text(options.number).decode())  # noqa: T201
    except IndexError as error:
        raise PromptError(f"{options.file}: {error}") from error


def main(arguments: Sequence[str]) -> int:
    """The program; its exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    options = parse_arguments(arguments)
    try:
        if options.command == "run":
            make_files(read_order(options.run_dir))
        elif options.command == "make":
            make(options)
        else:
            show(options)
    except (PromptError, OSError) as error:
        log.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
