"""The real vLLM on a CPU, made short of one thing at a time; does the rule name it?

    ENGINE_ENV=.engines/vllm_cpu python benchmarks/bottlenecks_vllm.py [--keep FOLDER]

One prefill and one decode worker over NIXL (experiment=demo). What each point is short of follows
from its lengths and from decode's pool. Prints truth, verdict and evidence of every point; exit
status 1 where they differ. Two starts of vLLM, 8 minutes on two free cores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

from analysis.facts import tidy
from analysis.load import load

ROOT = Path(__file__).resolve().parent.parent
COMMON = (
    "experiment=demo", "accuracy=none", "canary.enabled=false", "cluster.sample_s=0.5",
    "workload.range_ratio=1.0",
)  # fmt: skip
SHORT_POOL = (
    "workload.isl=100", "workload.osl=60", "workload.concurrency=[8]",
    "workload.prompts_per_concurrency=2", "flags.all.max-model-len=512",
    "+flags.roles.decode.num-gpu-blocks-override=6",
)  # fmt: skip
"""Five blocks of 128 tokens at decode (the sixth is vLLM's null block): two requests of two blocks
each run, of the eight that come."""
LONG_PROMPTS_THEN_LONG_ANSWERS = (
    "sweep.zip=[[workload.isl,workload.osl,workload.concurrency]]",
    "workload.isl=512,32", "workload.osl=2,96", "workload.concurrency=[6],[12]",
    "workload.prompts_per_concurrency=3",
)  # fmt: skip
"""512 tokens in and 2 out: prefill computes, decode hardly. 32 in and 96 out: the reverse, and
12 requests fit decode's batch (16) and its pool, so its steps are what is left."""

RUNS: tuple[tuple[tuple[str, ...], dict[tuple[int, int], str]], ...] = (
    (LONG_PROMPTS_THEN_LONG_ANSWERS, {(512, 2): "prefill", (32, 96): "decode-compute"}),
    (SHORT_POOL, {(100, 60): "decode-kv"}),
)
"""What is asked for, and the truth of each point by its lengths."""


def measure(asked: tuple[str, ...], folder: Path) -> pd.DataFrame:
    """The rows of one deployment's points."""
    many = ("-m",) if any(word.startswith("sweep.") for word in asked) else ()
    command = [sys.executable, "-m", "launcher", *many, *COMMON, *asked]
    sys.stdout.write(f"$ {' '.join(['python', *command[1:]])}\n")
    done = subprocess.run(
        [*command, f"cluster.results_dir={folder}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(f"the launcher ended with {done.returncode}: {done.stderr[-2000:]}")
    return tidy(load([folder]))


def main() -> int:
    """1 where a verdict is not the truth, or a point is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, help="where the runs stay")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, (asked, truths) in enumerate(RUNS):
            folder = (options.keep or Path(scratch)) / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            rows = measure(asked, folder)
            wrong += len(truths) - len(rows)
            for row in rows.itertuples(index=False):
                truth = truths[int(str(row.isl)), int(str(row.osl))]
                wrong += truth != row.bottleneck
                mark = "right" if truth == row.bottleneck else "WRONG"
                sys.stdout.write(
                    f"{mark}: {truth} ({row.isl}/{row.osl}, {row.concurrency} streams, "
                    f"{row.verdict}) -> {row.bottleneck or '(unknown)'}: "
                    f"{row.bottleneck_evidence}\n"
                )
            sys.stdout.flush()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
