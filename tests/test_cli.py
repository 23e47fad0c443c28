"""The command line as a user meets it: exit codes, one message, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launching import ROOT, launcher, program

BAD = {
    "misspelt key": (["cluster.gpus_per_nodee=3"], "nearest valid keys: cluster.gpus_per_node"),
    "misspelt group": (["clutser=local"], "did you mean cluster?"),
    "unknown option": (["topology=dep8_prefill9x2"], "did you mean dep8_prefill8x2?"),
    "wrong type": (
        ["cluster.gpus_per_node=four"],
        "cluster.gpus_per_node=four: allowed: a whole number",
    ),
    "open value": (["model.path=???"], "model.path is not set (???)"),
    "new flag without plus": (["flags.all.max-num-seqs=3"], "+flags.all.max-num-seqs"),
    "plus on a key that is there": (["+wait=true"], "write it without the +"),
    "pasted JSON": (['flags.all.x={"a":1}'], "docs/configure.md"),
    "time without quotes": (["cluster.time=5400"], "[D-]HH:MM:SS"),
    "boolean as account": (["cluster.account=True"], "put it in quotes"),
    "unknown role": (["+topology.roles.draft.dp=1"], "topology.roles.draft.dp=1"),
    "derived flag": (["+flags.all.port=9"], "the launcher derives this flag"),
    "colliding ports": (["cluster.ports.http=8000"], "router (http) and prefill0 (http)"),
    "engine variable of its own": (
        ["+cluster.env.VLLM_NIXL_SIDE_CHANNEL_HOST=localhost"],
        "the launcher sets it for every process",
    ),
    "wrong state layout": (
        ["model.env.VLLM_SSM_CONV_STATE_LAYOUT=SD"],
        "set model.env.VLLM_SSM_CONV_STATE_LAYOUT=DS",
    ),
    "NCCL's form for Gloo": (["+cluster.env.GLOO_SOCKET_IFNAME='^lo'"], "Gloo takes device names"),
    "key given twice": (["++wait=true", "++wait=false"], "wait is given more than once"),
    "port in another's window": (["cluster.ports.internal=8060"], "lies in the internal window"),
    "boolean as a name": (["name=True"], "name=True: meant as text"),
    "open value behind another": (
        ["model.path=???", "model.tokenizer='${model.path}'"],
        "model.path is not set",
    ),
    "strict about a warning": (
        ["cluster.segment=6", "check=strict", "wait=1"],
        "wait='1': allowed: auto, true, false",
    ),
    "warning made a stop": (
        ["cluster.segment=6", "check=strict"],
        "holds nothing together; use auto (4), off, or a divisor of 4 (a warning; check=strict",
    ),
    "misspelt experiment": (["experiment=dmo"], "did you mean demo?"),
    "no number": (["workload.prompts_per_concurrency=inf"], "allowed: 1e-06 to 1000000"),
    "tolerance that passes all": (["accuracy.tolerance=nan"], "accuracy.tolerance=nan: allowed"),
    "nothing to ask": (["accuracy.repeats=0"], "accuracy.repeats=0: allowed: 1 to 1000"),
    "sbatch option of ours": (
        ["+cluster.sbatch.nodes=99"],
        "cluster.sbatch.nodes=99: the launcher",
    ),
    "router flag of ours": (["+router.flags.port=1"], "router.flags.port=1: the launcher sets"),
    "role that is none": (["+flags.roles.deocde.x=3"], "flags.roles.deocde: no such role"),
    "release that is none": (["engine.release=abc"], "allowed: X.Y.Z"),
    "no such results folder": (
        ["engine=rehearsal", "cluster.results_dir=/proc/none"],
        "cluster.results_dir=/proc/none: cannot be made",
    ),
    "group set to nothing": (["topology=null"], "must be a string"),
    "interpreter that is none": (
        ["engine=rehearsal", "cluster=local", "cluster.python=/none/python"],
        "cluster.python=/none/python: there is no such program",
    ),
    "line break": (["name='a\nb'"], "control characters"),
    "no model": ([], "model.path=/models/Qwen3.5-397B-A17B-NVFP4: there is no such folder"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_message_exit_2_and_leaves_nothing(case: str, tmp_path: Path) -> None:
    words, message = BAD[case]
    done = launcher(tmp_path, *words)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_the_program_says_and_ends_as_its_main_function_does(tmp_path: Path) -> None:
    for words in (["cluster.time=9", "dry_run=true"], ["dry_run=json"]):
        assert program(tmp_path, *words) == launcher(tmp_path, *words)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    done = launcher(
        tmp_path, "cluster.time=9", "workload.range_ratio=2", "wait=maybe", "dry_run=true"
    )
    for words in ("3 problems", "cluster.time", "workload.range_ratio", "wait='maybe'"):
        assert words in done.stderr


def test_overrides_files_rules_and_the_site_are_told_in_one_list(tmp_path: Path) -> None:
    done = launcher(
        tmp_path,
        *("clutser=local", "topology=dep9", "workload.isl=null", "workload.concurrency=abc"),
        *("model.vocab_size=???", "cluster.time=9", "workload.range_ratio=2", "x={a"),
        *("+cluster.bar=1", "cluster.segment=42", "wait=true", "wait=false"),
    )
    assert done.returncode == 2
    assert done.stdout == ""
    for words in (
        "did you mean cluster?",
        "topology=dep9: no such option",
        "override workload.isl=null: allowed: a whole number",
        "override workload.concurrency=abc: allowed: a list of whole numbers, as in [64,128]",
        "model.vocab_size is not set (???)",
        "cluster.time='9': allowed",
        "workload.range_ratio=2.0: allowed",
        "override x={a: cannot be read",
        "cluster.bar: unknown key",
        "cluster.segment=42: one NVLink domain has 18 nodes",
        "wait is given more than once",
        "model.path=/models/Qwen3.5-397B-A17B-NVFP4: there is no such folder",
        "[conf/model/qwen3_5_397b_a17b_nvfp4.yaml]",
    ):
        assert words in done.stderr, words


def test_problems_of_a_sweep_are_told_once_or_with_their_combination(tmp_path: Path) -> None:
    done = launcher(
        tmp_path, "-m", "workload.osl=0,32", "cluster.time=9", "engine=rehearsal", "cluster=local"
    )
    assert done.returncode == 2
    assert done.stderr.count("cluster.time='9'") == 1
    assert done.stderr.count("workload.osl=0: allowed") == 1
    assert "workload.osl=0: allowed: 1 to 100000000 [workload.osl=0]\n" in done.stderr


def test_the_json_dry_run_prints_one_document_and_leaves_nothing(tmp_path: Path) -> None:
    done = launcher(tmp_path, "topology=dep8_prefill5x2", "dry_run=json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert (document["nodes"], document["serving_gpus"]) == (5, 18)
    assert list(tmp_path.iterdir()) == []


def test_the_dry_run_for_people_prints_every_process_and_leaves_nothing(tmp_path: Path) -> None:
    done = launcher(tmp_path, "dry_run=true")
    assert done.returncode == 0
    for words in ("prefill3 on node1:", "decode0-n1 on node3:", "router on node0:", "#SBATCH"):
        assert words in done.stdout
    assert "a submission would stop here" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_with_one_bad_combination_submits_none(tmp_path: Path) -> None:
    done = launcher(tmp_path, "-m", "engine=rehearsal", "cluster=local", "workload.osl=32,0")
    assert done.returncode == 2
    assert "workload.osl=0: allowed" in done.stderr
    assert "submitted local job" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m launcher dry_run=json | true",
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr


def test_a_dry_run_of_a_sweep_previews_every_combination_and_leaves_nothing(tmp_path: Path) -> None:
    done = launcher(tmp_path, "-m", "topology=dep8_prefill4x2,dep8_prefill5x2", "dry_run=true")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sbatch script:") == 2
    assert list(tmp_path.iterdir()) == []


def test_a_submission_without_slurm_is_refused_and_leaves_no_run_directory(tmp_path: Path) -> None:
    done = launcher(tmp_path, "engine=rehearsal", PATH="/nonexistent")
    assert done.returncode == 2
    assert "cluster=local" in done.stderr
    assert list(tmp_path.glob("runs/*")) == []


def test_the_dry_run_imports_neither_pandas_nor_torch_nor_vllm(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv=['launcher','dry_run=json']; import launcher.__main__ as m; m.main();"
        "heavy={'pandas','torch','vllm','numpy','aiohttp','matplotlib'} & set(sys.modules);"
        "sys.stderr.write(f'heavy={sorted(heavy)}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr.endswith("heavy=[]"), done.stderr


def test_a_warning_is_printed_and_stops_nothing(tmp_path: Path) -> None:
    done = launcher(tmp_path, "cluster.segment=6", "dry_run=true", "accuracy=none")
    assert done.returncode == 0
    assert "warning: cluster.segment=6: larger than the job's 4 nodes" in done.stdout


def test_warnings_are_in_the_json_document_and_once_for_a_whole_sweep(tmp_path: Path) -> None:
    done = launcher(tmp_path, "cluster.segment=6", "dry_run=json", "accuracy=none")
    (warned,) = [
        text
        for text in json.loads(done.stdout)["warnings"]
        if text.startswith("cluster.segment=6: larger")
    ]
    assert done.stderr == ""
    done = launcher(tmp_path, "-m", "cluster.segment=6,4", "dry_run=json", "accuracy=none")
    told = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert sum("stream-interval-and-itl" in line for line in told) == 1
    (segment,) = [line for line in told if "cluster.segment" in line]
    assert segment == f"warning: {warned} [cluster.segment=6]"
