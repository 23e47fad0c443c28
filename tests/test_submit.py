"""What surrounds a submission: run directories, the batch script, an environment without leaks."""

from __future__ import annotations

import stat
from pathlib import Path

from launcher.batch import SIGNALS_WAIT, batch_command, sbatch_text
from launcher.sbatch import clean_slurm_environment
from launcher.submit import make_run_dir
from tests.compose import AROUND, plan_of


def test_a_surrounding_allocation_does_not_leak_into_the_job() -> None:
    caller = {
        "PATH": "/usr/bin",
        "HF_HOME": "/shared/hf",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_JOB_ID": "41",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0xF",
        "SLURM_TRES_PER_TASK": "cpu=4",
        "SLURM_EXPORT_ENV": "NONE",
        "SBATCH_EXPORT": "NONE",
        "PMIX_RANK": "0",
        "PMI2_SIZE": "8",
        "SALLOC_ACCOUNT": "other",
        "SLURMD_NODENAME": "gb200-99",
    }
    kept = set(caller) - set(clean_slurm_environment(caller))
    assert kept == {"PATH", "HF_HOME", "SLURM_CONF"}


def test_run_directories_are_private_and_unique_with_legal_names(tmp_path: Path) -> None:
    made = [make_run_dir(str(tmp_path), "a/b c;$(x)") for _ in range(50)]
    assert len(set(made)) == 50
    for folder in made:
        assert folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not set(folder.name) & set("/ ;$()")


def test_the_batch_step_is_one_quoted_line_that_becomes_the_driver() -> None:
    line = batch_command("/runs/it's here", AROUND)
    assert line.startswith(f"exec env {SIGNALS_WAIT} PYTHONPATH=/launcher/code ")
    assert line.endswith(""" -P -m jobs run '/runs/it'"'"'s here' --snapshot SHA256""")


def test_the_end_signal_goes_to_the_driver_alone_and_early_enough() -> None:
    plan, placement = plan_of("cluster.grace_s=300", "+cluster.sbatch.comment=x y")
    script = sbatch_text(plan, placement, "n", "/RUN", AROUND)
    assert "#SBATCH --signal=B:TERM@300\n" in script
    assert "#SBATCH --comment='x y'\n" in script
    assert "srun" not in script
