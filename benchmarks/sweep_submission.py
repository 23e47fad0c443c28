"""100 combinations of one line, all checked, against a shell loop of 100 sbatch calls.

    python -m tests.cluster up                 # then, with its environment:
    python benchmarks/sweep_submission.py [combinations]

Both submit the same number of held jobs to the same Slurm, one after the other; the jobs are taken
back by their ids. Prints seconds and the ratio, for combinations that each need a job of their own
and for combinations of ten deployments, which part of them went where, and the load averages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORDS = (
    *("engine=rehearsal", "cluster=slurm_ci", "topology=dp1_prefill1x1", "workload=smoke"),
    *("accuracy=none", "allow_dirty=true", "+cluster.sbatch.hold=true", "sweep.table=false"),
)


def main() -> int:
    """Measures and prints."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    axes = {
        "a job each": ["workload.seed=0", f"+model.env.COMBINATION=range({count})"],
        "ten jobs": [f"+model.env.COMBINATION=range({count // 10})", "workload.isl=range(100,110)"],
    }
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        loop, script = shell_loop(Path(folder), count)
        sys.stdout.write(f"shell loop of {count} sbatch calls: {loop:.2f} s\n")
        for what, words in axes.items():
            seconds, jobs, parts = launched(Path(folder), words)
            sys.stdout.write(
                f"one line, {count} combinations, {what} ({jobs} jobs): {seconds:.2f} s, "
                f"{seconds / loop:.2f} of the loop\n  {parts}\n"
            )
        script.unlink()
    one, five, fifteen = os.getloadavg()
    sys.stdout.write(f"load averages at the end: {one:.1f} {five:.1f} {fifteen:.1f}\n")
    return 0


def shell_loop(folder: Path, count: int) -> tuple[float, Path]:
    """Seconds of `for i in ...; do sbatch script; done`."""
    script = folder / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --hold\n#SBATCH --nodes=1\n#SBATCH --time=5\ntrue\n")
    begun = time.monotonic()
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"for i in $(seq {count}); do sbatch --parsable -o /dev/null {script}; done",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.monotonic() - begun
    cancel(done.stdout.split())
    return seconds, script


def launched(folder: Path, words: list[str]) -> tuple[float, int, str]:
    """Seconds of one launcher line, how many jobs came of it, and where the time went."""
    line = [sys.executable, "-m", "launcher", "-m", *WORDS, *words]
    begun, since = time.monotonic(), time.time()
    done = subprocess.run(
        [*line, f"cluster.results_dir={folder}/runs"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - begun
    if done.returncode:
        sys.exit(done.stderr + done.stdout)
    home = Path(next(line.split()[-1] for line in done.stdout.splitlines() if "sweep dir" in line))
    ids = [run["job_id"] for run in json.loads((home / "sweep.json").read_text())["runs"]]
    cancel(ids)
    return seconds, len(ids), shares(home, since, since + seconds)


def shares(home: Path, begun: float, ended: float) -> str:
    """Where the time went, by when files of the sweep's directory were written.

    The copy of the code is the first thing after the checks; a job's content.json is written just
    before its sbatch is called, its submission.json just after.
    """
    copied = min(at for at in map(changed, home.glob("code/*/*.py")) if at >= begun)
    first = min(map(changed, home.glob("*/content.json")))
    last = max(map(changed, home.glob("*/submission.json")))
    parts = {
        "start, composition and checks": copied - begun,
        "copy, plans, what was measured before": first - copied,
        "files and sbatch of every job": last - first,
        "the rest": ended - last,
    }
    return "; ".join(f"{what} {seconds:.2f} s" for what, seconds in parts.items())


def changed(path: Path) -> float:
    """When a file was written last."""
    return path.stat().st_mtime


def cancel(ids: list[str]) -> None:
    """By ids, never by name."""
    subprocess.run(["scancel", *ids], check=True)


if __name__ == "__main__":
    sys.exit(main())
