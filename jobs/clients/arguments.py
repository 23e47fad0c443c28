"""The native client's command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from jobs.clients.load import PATHS, Load
from jobs.targets import check_target

RANDOM = ("num_prompts", "input_range", "output_range", "vocab_size")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; wrong values end the program with status 2 and a reason."""
    parser = argparse.ArgumentParser(
        prog="python -m jobs.clients.native",
        description="Sends the requests of a prompt file to a server and measures its answers.",
    )
    _where(parser)
    _what(parser)
    _how(parser)
    given = parser.parse_args(arguments)
    for problem in problems(given):
        parser.error(problem)
    return given


def _where(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("server and files").add_argument
    add("--base-url", required=True, help="http://host:port, without /v1")
    add("--model", required=True)
    add("--endpoint", choices=sorted(PATHS), default="completions")
    add("--gate", type=Path, help="gate folder; without it the client runs at once")
    add("--name", default="native", help="this client's name at the gate")
    add("--result", type=Path, required=True, help="the figures, as JSON")
    add("--requests", type=Path, help="one row a request, as Parquet")
    add("--vllm-bench-json", type=Path, help="the figures as `vllm bench serve` writes them")
    add(
        "--metadata", nargs="+", default=[], metavar="KEY=VALUE", help="further keys of the results"
    )


def _what(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group(
        "requests", "a prompt file (python -m jobs.prompts), or random token ids made here"
    ).add_argument
    add("--prompts", type=Path, help="prompt file; with a gate, waited for")
    add("--num-prompts", type=int)
    add("--warmup", type=int, default=0, help="requests before the measurement, other prompts")
    add("--input-range", type=int, nargs=2, metavar=("LO", "HI"))
    add("--output-range", type=int, nargs=2, metavar=("LO", "HI"))
    add("--vocab-size", type=int, help="ids are drawn below it (ordinary tokens)")
    add("--seed", type=int, default=0)
    add("--ignore-eos", action=argparse.BooleanOptionalAction, default=True)
    add("--temperature", type=float, default=0.0)
    add("--chunk-usage", action="store_true", help="ask for token counts in every chunk")


def _how(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("load").add_argument
    add("--concurrency", type=int, required=True, help="0: no limit (with --request-rate)")
    add("--request-rate", type=float, help="requests a second; without it a closed loop")
    add("--burstiness", type=float, default=1.0, help="gamma shape of gaps; 1: Poisson process")
    add("--warmup-rate", type=float, help="requests a second of the warm-up wave")
    add("--processes", type=int, default=0, help="0: as many as the load needs")
    add("--timeout-s", type=float, default=3600.0, help="longest time one request may take")
    add("--stall-timeout-s", type=float, default=900.0, help="longest time without a byte")
    add("--goodput-ttft-ms", type=float, help="limit of a good request's time to first token")
    add("--goodput-tpot-ms", type=float, help="limit of its time per output token")


def problems(given: argparse.Namespace) -> list[str]:
    """What is wrong with the values, each with what is allowed."""
    found = []
    positive = ("timeout_s", "stall_timeout_s", "request_rate", "burstiness", "warmup_rate")
    for name in (*positive, "goodput_ttft_ms", "goodput_tpot_ms"):
        value = getattr(given, name)
        if value is not None and not value > 0:
            found.append(f"{_option(name)} {value:g}: must be above 0")
    for name in ("concurrency", "warmup", "processes"):
        if getattr(given, name) < 0:
            found.append(f"{_option(name)} {getattr(given, name)}: must be 0 or more")
    if given.concurrency == 0 and given.request_rate is None and given.prompts is None:
        found.append("--concurrency 0: a closed loop needs at least 1, or give --request-rate")
    try:
        load_from(given).where()
    except ValueError as error:
        found.append(f"--base-url: {error}")
    for word in given.metadata:
        if not word.partition("=")[0].strip() or "=" not in word:
            found.append(f"--metadata {word}: must be KEY=VALUE")
    return found + _target_problems(given) + _random_problems(given)


def _target_problems(given: argparse.Namespace) -> list[str]:
    """Of the files that are written when all is measured: too late to learn of it then."""
    found = []
    for name in ("result", "requests", "vllm_bench_json"):
        path = getattr(given, name)
        if path is None:
            continue
        try:
            check_target(path)
        except OSError as error:
            found.append(f"{_option(name)} {path}: {error.strerror}")
            continue
        above = next(folder for folder in path.absolute().parents if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            found.append(f"{_option(name)} {path}: nothing can be written in {above}")
    return found


def _random_problems(given: argparse.Namespace) -> list[str]:
    """Of the options that make random prompts."""
    if given.prompts is not None:
        return []
    missing = [_option(name) for name in RANDOM if getattr(given, name) is None]
    if missing:
        return [f"without --prompts, {', '.join(missing)} must be given"]
    found = []
    for name in ("num_prompts", "vocab_size"):
        if getattr(given, name) <= 0:
            found.append(f"{_option(name)} {getattr(given, name)}: must be above 0")
    for name in ("input_range", "output_range"):
        low, high = getattr(given, name)
        if not 1 <= low <= high:
            found.append(f"{_option(name)} {low} {high}: need 1 <= LO <= HI")
    return found


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def metadata_from(given: argparse.Namespace) -> dict[str, str]:
    """--metadata as keys and texts, as `vllm bench serve` reads it."""
    pairs = (word.partition("=") for word in given.metadata)
    return {key.strip(): value.strip() for key, _, value in pairs}


def load_from(given: argparse.Namespace) -> Load:
    """The load the command line describes; its prompt file is named later."""
    return Load(
        base_url=given.base_url.rstrip("/"),
        model=given.model,
        prompts="",
        concurrency=given.concurrency,
        endpoint=given.endpoint,
        request_rate=given.request_rate,
        burstiness=given.burstiness,
        warmup_rate=given.warmup_rate,
        ignore_eos=given.ignore_eos,
        temperature=given.temperature,
        chunk_usage=given.chunk_usage,
        seed=given.seed,
        timeout_s=given.timeout_s,
        stall_timeout_s=given.stall_timeout_s,
    )
