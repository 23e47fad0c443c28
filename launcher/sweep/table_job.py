"""The small job after a sweep's last one: it writes the tables, whatever became of the others."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from launcher.schema import LaunchConfig
from launcher.steps import Surroundings

SCRIPT = "table.sh"
FORMATS = ("table.txt", "table.md", "table.csv")
REPORT = "report.html"
SBATCH_S = 120.0
LATER = 75
"""jobs/table_turn.py's word for: submitted again, behind jobs that are still to come."""


def table_command(sweep_dir: Path, around: Surroundings) -> str:
    """Shell lines that write every table, and the report, into the sweep's directory.

    Their exit code is the tables': a report that cannot be made spoils nothing.
    """
    words = [*_python(around), "analysis", "table", str(sweep_dir)]
    for name in FORMATS:
        words += ["--out", str(sweep_dir / name)]
    report = [*_python(around), "analysis", "report", str(sweep_dir), "--out"]
    report.append(str(sweep_dir / REPORT))
    return (
        f"{shlex.join(words)}\ncode=$?\n"
        f"{shlex.join(report)} || echo 'no report: see above'\nexit $code\n"
    )


def _turn(sweep_dir: Path, around: Surroundings) -> str:
    """The shell lines that end the job when runs have gone on in jobs that are still to come."""
    words = [*_python(around), "jobs.table_turn", str(sweep_dir)]
    return f"{shlex.join(words)}\n[ $? -eq {LATER} ] && exit 0\n"


def _python(around: Surroundings) -> list[str]:
    env = [f"{key}={value}" for key, value in around.env.items()]
    return ["env", *env, around.python, "-P", "-m"]


def table_script(sweep_dir: Path, config: LaunchConfig, around: Surroundings) -> str:
    """The batch script. Its dependency stands on sbatch's command line."""
    cluster = config.cluster
    options: dict[str, object] = {
        "job-name": f"table-{sweep_dir.name.rsplit('-', 1)[-1]}",
        "comment": f"tables of sweep {sweep_dir.name}",
        "nodes": 1,
        "ntasks": 1,
        "time": "00:10:00",
        "output": str(sweep_dir / "table.log"),
    }
    for key in ("account", "partition", "qos", "reservation", "exclude"):
        if getattr(cluster, key) is not None:
            options[key] = getattr(cluster, key)
    options |= {key.replace("_", "-"): value for key, value in config.sweep.table_sbatch.items()}
    lines = ["#!/bin/bash"]
    for key, value in options.items():
        if value is not None and value is not False:
            told = "" if value is True else f"={shlex.quote(str(value))}"
            lines.append(f"#SBATCH --{key}{told}")
    commands = _turn(sweep_dir, around) + table_command(sweep_dir, around)
    return "\n".join([*lines, *cluster.setup, commands])


def submit_table(
    sweep_dir: Path, config: LaunchConfig, around: Surroundings, jobs: Sequence[str]
) -> tuple[str | None, str | None]:
    """(job id, None), or (None, why there is none)."""
    script = sweep_dir / SCRIPT
    script.write_text(table_script(sweep_dir, config, around), encoding="utf-8")
    words = ["sbatch", "--parsable", f"--dependency=afterany:{':'.join(jobs)}", str(script)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=SBATCH_S, check=False, env=os.environ
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    job_id = done.stdout.strip().split(";")[0]
    if done.returncode == 0 and job_id.isdecimal():
        return job_id, None
    return None, (done.stderr or done.stdout).strip() or "sbatch failed without a word"


def write_tables(sweep_dir: Path, around: Surroundings) -> int:
    """The tables of a sweep on this machine, the text shown as well."""
    sys.stdout.flush()
    done = subprocess.run(["sh", "-c", table_command(sweep_dir, around)], check=False)
    shown = sweep_dir / FORMATS[0]
    if shown.is_file():
        sys.stdout.write(shown.read_text(encoding="utf-8"))
    return done.returncode
