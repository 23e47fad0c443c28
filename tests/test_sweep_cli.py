"""A sweep's command line as a user meets it: skipping, refusals, an sbatch that says no."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.launching import launcher

RUN = ("engine=rehearsal", "cluster=slurm_ci", "accuracy=none", "workload=smoke")

# 4 GPUs a node: a rank divides a node, or fills whole nodes with dp 1.
PRODUCT = (
    *("topology=dep2_prefill1x2", "topology.share_nodes=false", "cluster.nvlink_domain_nodes=18"),
    *("cluster.segment=off", "topology.roles.decode.tp=4,8", "topology.roles.decode.pp=1,8"),
    *("topology.roles.decode.dp=1,2", "topology.roles.decode.expert_parallel=false"),
    "topology.roles.decode.load_balancing=internal",
)


def test_impossible_points_of_a_product_are_skipped_with_their_arithmetic(tmp_path: Path) -> None:
    done = launcher(tmp_path, "-m", *RUN, *PRODUCT, "sweep.skip_invalid=true", "dry_run=true")
    assert done.returncode == 0, done.stderr
    shape = re.compile(r"decode.tp=(\d) .*decode.pp=(\d) .*decode.dp=(\d)")
    kept, _, skipped = done.stdout[done.stdout.index("sweep: ") :].partition("  skipped: ")
    assert {m.groups() for m in shape.finditer(kept)} == {
        *(("4", "1", "1"), ("4", "1", "2"), ("8", "1", "1"), ("4", "8", "1"), ("8", "8", "1")),
    }
    assert {m.groups() for m in shape.finditer(skipped)} == {
        *(("4", "8", "2"), ("8", "1", "2"), ("8", "8", "2")),
    }
    assert "tp 8 x pp 8 = 64 GPUs a rank, dp 2, on nodes of 4 GPUs" in skipped
    assert "8 combinations, 3 skipped, 5 jobs" in kept


def test_without_skipping_every_impossible_one_is_told_and_nothing_submitted(
    tmp_path: Path,
) -> None:
    done = launcher(tmp_path, "-m", *RUN, *PRODUCT)
    assert done.returncode == 2
    assert "3 problems found before submission" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_of_which_nothing_is_left_is_an_error(tmp_path: Path) -> None:
    words = (*RUN, PRODUCT[0], "topology.roles.decode.tp=8,16", "topology.roles.decode.dp=8")
    done = launcher(tmp_path, "-m", *words, "sweep.skip_invalid=true")
    assert done.returncode == 2
    assert "nothing was submitted" in done.stderr
    assert list(tmp_path.iterdir()) == []


REFUSED = {
    "an axis of the whole sweep": (["sweep.max_jobs=1,2"], "speaks of the whole sweep"),
    "a run alone has no choice of order": (["sweep.order=random"], "allowed: cheapest, as_given"),
    "no job at a time": (["sweep.max_jobs=0", "workload.isl=1,2"], "sweep.max_jobs=0"),
    "the same value twice": (["workload.isl=8,8"], "more than once: give it once"),
    "an axis twice": (["workload.isl=8,9", "workload.isl=7"], "workload.isl is given more than"),
    "axes of two lengths": (
        ["sweep.zip=[[workload.isl,workload.osl]]", "workload.isl=8,9", "workload.osl=1,2,3"],
        "workload.isl has 2, workload.osl has 3",
    ),
    "local and not waiting": (["cluster=local", "wait=false"], "one after another"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_sweep_that_cannot_be_meant_is_one_message(case: str, tmp_path: Path) -> None:
    words, message = REFUSED[case]
    base = [word for word in RUN if not word.startswith(words[0].split("=")[0] + "=")]
    done = launcher(tmp_path, "-m", *base, *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


SBATCH = """#!/bin/sh
count=$(ls "$ANSWERS/seen" | wc -l); touch "$ANSWERS/seen/$count"
echo "$@" >> "$ANSWERS/lines"
if [ -e "$ANSWERS/$count.err" ]; then cat "$ANSWERS/$count.err" >&2; exit 1; fi
echo "Submitted batch job $((7001 + count))"
"""
TABLE_SBATCH = """case "$*" in *--parsable*) echo 7099; exit 0;; esac
"""


def sbatch_that_refuses(tmp_path: Path, refused: dict[int, str]) -> dict[str, str]:
    """The environment with an sbatch that says no to some of its calls, in its own words."""
    answers = tmp_path / "answers"
    (answers / "seen").mkdir(parents=True)
    for place, text in refused.items():
        (answers / f"{place}.err").write_text(text)
    first, rest = SBATCH.split("\n", 1)
    programs = {"sbatch": f"{first}\n{TABLE_SBATCH}{rest}", "srun": "#!/bin/sh\n"}
    for name, text in programs.items():
        (answers / name).write_text(text)
        (answers / name).chmod(0o755)
    return {"PATH": f"{answers}:/usr/bin:/bin", "ANSWERS": str(answers)}


def record_of(said: str) -> dict[str, Any]:
    """sweep.json of the sweep that was told."""
    found = re.search(r"^sweep directory  (.+)$", said, re.MULTILINE)
    assert found, said
    record: dict[str, Any] = json.loads(Path(found[1], "sweep.json").read_text())
    return record | {"home": found[1]}


def test_every_job_is_tried_and_the_refused_one_is_told(tmp_path: Path) -> None:
    env = sbatch_that_refuses(tmp_path, {1: "sbatch: error: QOSMaxSubmitJobPerUserLimit\n"})
    words = ("topology=dp1_prefill1x1", "workload.concurrency=[4]", "+model.env.N=4,8,16,32")
    done = launcher(tmp_path, "-m", *RUN, *words, "sweep.max_jobs=1", **env)
    assert done.returncode == 1, done.stderr
    record = record_of(done.stdout)
    runs = record["runs"]
    assert [run["job_id"] for run in runs] == ["7001", None, "7003", "7004"]
    assert "QOSMaxSubmitJobPerUserLimit" in runs[1]["error"]
    assert [run["dependency"] for run in runs] == [
        *(None, "afterany:7001", "afterany:7001", "afterany:7003"),
    ]
    for run, value in zip(runs, (4, 8, 16, 32), strict=True):
        if run["directory"]:
            config = json.loads(Path(record["home"], run["directory"], "run.json").read_text())
            assert config["config"]["model"]["env"]["N"] == str(value)
    assert "error: sbatch refused the job: sbatch: error: QOSMaxSubmitJobPerUserLimit" in (
        done.stdout
    )
    assert record["table"] == {"job_id": "7099", "error": None}


def test_when_slurm_takes_nothing_the_record_says_so(tmp_path: Path) -> None:
    refusal = "sbatch: error: Invalid account or account/partition combination specified\n"
    env = sbatch_that_refuses(tmp_path, dict.fromkeys(range(4), refusal))
    done = launcher(
        tmp_path, "-m", *RUN, "topology=dp1_prefill1x1", "+model.env.N=a,b", "wait=true", **env
    )
    assert done.returncode == 1
    record = record_of(done.stdout)
    assert [run["state"] for run in record["runs"]] == ["refused", "refused"]
    assert "cluster.account" in record["runs"][0]["error"]
    assert record["table"]["job_id"] is None


def test_a_glob_that_matches_nothing_is_told(tmp_path: Path) -> None:
    done = launcher(tmp_path, "-m", *RUN, "topology=glob(no_such*)", "dry_run=true")
    assert done.returncode == 2
    assert "topology: no option matches" in done.stderr


def test_a_job_is_called_by_its_values_without_their_quotes_and_null_is_no_option(
    tmp_path: Path,
) -> None:
    axis = "+engine.options.fail=null,'decode/deaf'"
    done = launcher(tmp_path, "-m", *RUN, "topology=dp1_prefill1x1", axis, "dry_run=true")
    assert done.returncode == 0, done.stderr
    assert "  dp1_prefill1x1-faildecode/deaf: " in done.stdout
    assert "--fail null" not in done.stdout
    assert "--fail None" not in done.stdout
    assert done.stdout.count("--fail decode/deaf") > 1
