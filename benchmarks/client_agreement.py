"""Do the native client and `vllm bench serve` see the same? On known delays, and on a real server.

    python -m benchmarks.client_agreement --vllm-python ENGINE/bin/python [--record FILE]
    python -m benchmarks.client_agreement --vllm-python ... --url URL --model NAME --prompts FILE

The fake server's own log is the truth: its delays are set, and it writes what became of them.
Against a URL there is no truth, only the two clients in turn, each several times.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.client_requests import machine
from benchmarks.load_client import peers
from benchmarks.load_client.server import Fake, build, fake_server, make_prompts, record, table

ANSWER = 33
CASES = ((16, 128, 200_000, 20_000), (512, 2048, 500_000, 30_000))
"""Streams, requests, TTFT and time between chunks in microseconds."""
FIGURES = {"mean": np.mean, "median": np.median, "p99": lambda v: np.percentile(v, 99)}


def main() -> None:
    """Both clients, in turn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--vllm-python", type=Path, required=True)
    add("--vllm-function", type=Path, help="its endpoint_request_func.py, instead of all of it")
    add("--repeats", type=int, default=3)
    add("--processes", type=int, default=1)
    add("--url", help="a real server instead of the fake one")
    add("--model", default="fake")
    add("--prompts", type=Path)
    add("--concurrency", type=int, default=4)
    add("--record", type=Path)
    given = parser.parse_args()
    kept = on_url(given) if given.url else on_fakes(given)
    record(given.record, {"machine": machine(), "runs": kept})


def on_fakes(given: argparse.Namespace) -> list[dict]:
    """Errors of both clients against the truth, ms."""
    kept = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder)
        for streams, requests, ttft_us, itl_us in CASES:
            path = make_prompts(folder / f"{streams}.prompts", requests, 1000, ANSWER)
            delays = (f"ttft_us={ttft_us}", f"itl_us={itl_us}", "prompt_tokens=1000")
            for _ in range(given.repeats):
                for client in (native, vllm):
                    with fake_server(program, folder, *delays) as fake:
                        cost = client(given, fake.url, path, streams)
                    peers.rested()
                    kept.append({"streams": streams} | against(fake, cost))
    rows = []
    for streams, *_ in CASES:
        for figure in kept[0]["truth_ms"]:
            true = middle(kept, streams, "n", figure, "truth_ms")
            errors = [middle(kept, streams, who, figure, "error_ms") for who in ("n", "v")]
            rows.append([streams, figure, f"{true:.2f}", *(f"{error:+.2f}" for error in errors)])
    header = ["streams", "figure", "truth ms", "native's error ms", "vllm bench's error ms"]
    print(table(header, rows))  # noqa: T201
    return kept


def on_url(given: argparse.Namespace) -> list[dict]:
    """Figures of both clients on a server without a truth, ms."""
    kept = []
    for _ in range(given.repeats):
        for client in (native, vllm):
            cost = client(given, given.url, given.prompts, given.concurrency)
            kept.append({"client": cost.client, "failed": cost.failed, "ms": seen(cost)})
            print(kept[-1], flush=True)  # noqa: T201
    rows = []
    for figure in kept[0]["ms"]:
        ours = [k["ms"][figure] for k in kept if k["client"].startswith("n")]
        theirs = [k["ms"][figure] for k in kept if k["client"].startswith("v")]
        mine, other = float(np.median(ours)), float(np.median(theirs))
        spread = max(np.ptp(ours), np.ptp(theirs))
        rows.append([figure, f"{mine:.1f}", f"{other:.1f}", f"{mine / other:.3f}", f"{spread:.1f}"])
    header = ["figure", "native ms", "vllm bench ms", "ratio", "spread between repeats ms"]
    print(table(header, rows))  # noqa: T201
    return kept


def native(given: argparse.Namespace, url: str, path: Path, streams: int) -> peers.Cost:
    """The native client."""
    return peers.native(url, path, streams, given.processes, model=given.model)


def vllm(given: argparse.Namespace, url: str, path: Path, streams: int) -> peers.Cost:
    """vLLM's."""
    if given.vllm_function:
        return peers.vllm_function(given.vllm_function, url, path, streams, given.vllm_python)
    return peers.vllm_bench(given.vllm_python, url, path, streams, given.model)


def seen(cost: peers.Cost) -> dict[str, float]:
    """What a client says, ms."""
    values = {"ttft": cost.ttft_s, "tpot": cost.tpot_s, "e2el": cost.e2el_s}
    return {
        f"{name} {word}": float(of(array) * 1e3)
        for name, array in values.items()
        for word, of in FIGURES.items()
    }


def against(fake: Fake, cost: peers.Cost) -> dict:
    """What a client says beside the truth, ms; E2E from the request's last byte in."""
    truth = {
        "ttft": fake.ttft_s(),
        "tpot": fake.span_s() / (ANSWER - 1),
        "e2el": fake.truth[:, 3] - fake.truth[:, 1],
    }
    true = {f"{n} {w}": float(of(a) * 1e3) for n, a in truth.items() for w, of in FIGURES.items()}
    told = seen(cost)
    error = {key: told[key] - true[key] for key in true}
    return {"client": cost.client, "failed": cost.failed, "truth_ms": true, "error_ms": error}


def middle(kept: list[dict], streams: int, who: str, figure: str, key: str) -> float:
    """The median over a client's repeats."""
    of = [k for k in kept if k["streams"] == streams and k["client"].startswith(who)]
    return float(np.median([k[key][figure] for k in of]))


if __name__ == "__main__":
    main()
