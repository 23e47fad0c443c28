"""Stand-in deployments that are short of one thing each, run whole; does the rule name it?

    python benchmarks/bottlenecks.py [WORD...] [--keep FOLDER]

Every line is a real run: the launcher, the driver, the stand-in engines, the real router, the
native client, the record, the table. What is wrong with an engine is known, for it was asked for.
Prints the truth, the verdict and its evidence; exit status 1 where they differ.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from analysis.facts import tidy
from analysis.load import load

ROOT = Path(__file__).resolve().parent.parent
COMMON = {
    "topology": "dp1_prefill1x1", "cluster": "local", "engine": "rehearsal", "workload": "smoke",
    "model": "tiny_qwen3_5", "accuracy": "none", "canary.enabled": "false", "allow_dirty": "true",
    "wait": "true", "cluster.sample_s": "0.25", "workload.isl": "256", "workload.osl": "32",
    "workload.concurrency": "[16]", "workload.prompts_per_concurrency": "6",
}  # fmt: skip
TRUTHS: dict[str, tuple[str, ...]] = {
    "prefill": ("prefill-tps=3000",),
    "decode-kv": ("decode-kv-tokens=1000", "decode-tps=60"),
    "decode-compute": ("decode-max-seqs=4", "decode-tps=60"),
    "transfer": ("transfer-mbps=1500",),
    "frontend": ("frontend-ms=40", "prefill-tps=1e6"),
    "": ("decode-tps=8", "prefill-tps=400"),
}
"""The word, and the options that make it true."""
ALONE = {
    "workload.concurrency": "[1]", "workload.osl": "8", "workload.prompts_per_concurrency": "12",
}  # fmt: skip
"""Where nothing is saturated: one request, which prefill and decode take turns to serve."""


def measure(word: str, folder: Path) -> tuple[str, str]:
    """(verdict, evidence) of one run."""
    options = [f"+engine.options.{option}" for option in TRUTHS[word]]
    settings = [f"{key}={value}" for key, value in {**COMMON, **({} if word else ALONE)}.items()]
    command = [sys.executable, "-m", "launcher", *settings, *options]
    done = subprocess.run(
        [*command, f"cluster.results_dir={folder}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"{word}: the launcher ended with {done.returncode}: {done.stderr[-2000:]}"
        )
    row = tidy(load([folder])).iloc[-1]
    return str(row["bottleneck"]), str(row["bottleneck_evidence"])


def main() -> int:
    """1 where a verdict is not the truth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", default=list(TRUTHS), help="only these truths")
    parser.add_argument("--keep", type=Path, help="where the runs stay")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for word in options.words:
            folder = (options.keep or Path(scratch)) / (word or "nothing")
            folder.mkdir(parents=True, exist_ok=True)
            found, evidence = measure(word, folder)
            wrong += found != word
            mark = "right" if found == word else "WRONG"
            sys.stdout.write(
                f"{mark}: {word or '(nothing)'} -> {found or '(unknown)'}: {evidence}\n"
            )
            sys.stdout.flush()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
