"""sbatch as the launcher calls it: its id, a lost answer, none on this machine, a Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launcher.errors import SubmissionError
from launcher.sbatch import sbatch
from tests.launching import ROOT, environment
from tests.patience import PATIENCE_S, wait_until

ENV = {"PYTHONPATH": str(ROOT)}
LINE = (
    *("-m", "engine=rehearsal", "cluster=slurm_ci", "accuracy=none", "workload=smoke"),
    *("topology=dp1_prefill1x1", "+model.env.N=range(12)"),
)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of stand-ins in front of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    program(folder / "srun", "exit 1")
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A run directory's batch script."""
    path = tmp_path / "run" / "batch.sh"
    path.parent.mkdir()
    path.write_text("#!/bin/bash\n#SBATCH --job-name=mine-1a2b3c\n", encoding="utf-8")
    return path


def test_the_id_is_read_and_a_surrounding_job_left(
    programs: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "41")
    said = 'echo "Submitted batch job 7$SLURM_JOB_ID on cluster north"; echo "$@" > asked'
    program(programs / "sbatch", f"cd {programs}; {said}")
    assert sbatch(script, ENV) == "7"
    (asked,) = (programs / "asked").read_text().split()
    assert Path(asked).read_text() == script.read_text()


def test_a_job_whose_id_a_wrapper_swallowed_is_found_by_its_name(
    programs: Path, script: Path
) -> None:
    program(programs / "sbatch", f"echo once >> {programs}/asked")
    program(programs / "squeue", 'case "$*" in *--name=mine-1a2b3c*) echo 77;; esac')
    assert sbatch(script, ENV) == "77"
    assert (programs / "asked").read_text() == "once\n"


def test_a_refusal_is_told_with_what_to_do(programs: Path, script: Path) -> None:
    program(programs / "sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1")
    with pytest.raises(SubmissionError, match=r"refused the job: .*Invalid account\n  set cluster"):
        sbatch(script, ENV)


def test_a_machine_without_sbatch_is_one_message(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SubmissionError, match="use cluster=local"):
        sbatch(script, ENV)


HAND_OVER = """
import signal, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from launcher.sbatch import sbatch
signal.signal(signal.SIGINT, lambda *_: None)
print("ready", flush=True)
with ThreadPoolExecutor(4) as pool:
    print(*pool.map(lambda one: sbatch(Path(one), {}), sys.argv[1:]), flush=True)
"""


def test_no_moment_of_a_call_is_open_to_a_ctrl_c(programs: Path, tmp_path: Path) -> None:
    program(programs / "sbatch", "sleep 0.01; echo Submitted batch job 7")
    scripts = [tmp_path / f"run{number}" / "batch.sh" for number in range(24)]
    for one in scripts:
        one.parent.mkdir()
        one.write_text("#!/bin/bash\n", encoding="utf-8")
    started = subprocess.Popen(
        [sys.executable, "-c", HAND_OVER, *map(str, scripts)],
        env=environment({"PATH": os.environ["PATH"]}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    while started.poll() is None:
        os.killpg(started.pid, signal.SIGINT)
        time.sleep(0.0005)
    out, err = started.communicate(timeout=PATIENCE_S)
    assert out.split() == ["7"] * 24, err


def test_a_ctrl_c_amid_a_sweep_is_told_with_every_job_that_slurm_has(
    programs: Path, tmp_path: Path
) -> None:
    """The terminal sends it to the whole group: calls under way still end, with their ids."""
    body = (
        f"mkdir {programs}/seen.$$; while [ ! -e {programs}/go ]; do sleep 0.05; done\n"
        f"echo $$ >> {programs}/taken; echo Submitted batch job $$"
    )
    program(programs / "sbatch", body)
    started = subprocess.Popen(
        [sys.executable, "-m", "launcher", *LINE, f"cluster.results_dir={tmp_path}/runs"],
        cwd=tmp_path,
        env=environment({"PATH": os.environ["PATH"]}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: list(programs.glob("seen.*")), "a call of sbatch")
    os.killpg(started.pid, signal.SIGINT)
    (programs / "go").touch()
    out, err = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 130, err
    assert "Traceback" not in err
    (home,) = (tmp_path / "runs").iterdir()
    record = json.loads((home / "sweep.json").read_text())
    ids = {run["job_id"] for run in record["runs"] if run["state"] == "submitted"}
    assert ids == set((programs / "taken").read_text().split())
    planned = sum(run["state"] == "planned" for run in record["runs"])
    assert len(ids) + planned == 12
    assert f"stopped: {len(ids)} job" in err
    assert f"{planned} not; no job writes the tables" in err
    assert all(job_id in out for job_id in ids)
