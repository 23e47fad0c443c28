"""What one node sees of itself, on real files, real sockets and real text of nvidia-smi."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs.environment import OPEN_FILES, raise_open_files
from jobs.node_report import NodeReport, read_report
from jobs.preflight import gpus, network
from jobs.preflight.__main__ import REPORT
from jobs.preflight.host import files_check, host_checks
from jobs.preflight.model import model_checks
from jobs.preflight.versions import ask
from jobs.stage.headers import safetensors_size
from tests.fakes_jobs import REPO, free_ports
from tests.nvidia_smi import UUID, ZEROS, Smi

SPEC: dict[str, Any] = {
    "inside": False,
    "node": "gb1",
    "address": "127.0.0.3",
    "others": [],
    "token_file": "driver-1",
    "token": "t" * 32,
    "own_file": "node0-1",
    "listeners": [],
    "devices": [],
    "paths": [],
    "executables": [],
    "model": None,
    "engine_python": None,
    "engine_skipped": "no engine in this test",
    "cache_dir": None,
    "kept_caches": None,
    "stage": None,
    "run_id": "r1",
    "mark": "r1-0a",
    "min_free_disk_gb": 0.0,
    "min_free_memory_gb": 0.0,
    "max_gpu_used_gb": 1.0,
    "needs_gpu": False,
    "needs_imex": False,
    "gpus": 4,
    "granted_cpus": None,
    "open_files": 16,
    "open_files_now": 0,
}


def node_says(run_dir: Path, path: str | None = None, **more: Any) -> NodeReport:
    """The whole program as a node runs it; the run directory holds the driver's token."""
    spec = {**SPEC, "run_dir": str(run_dir), **more}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "jobs.preflight", packed(spec)],
        cwd=REPO,
        env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    report = read_report(done.stdout, spec["node"])
    assert isinstance(report, NodeReport), report
    return report


def packed(spec: dict[str, Any]) -> str:
    return base64.b64encode(json.dumps(spec).encode()).decode()


def states(report: NodeReport) -> dict[str, str]:
    return {finding.check: finding.state for finding in report.found}


def value(report: NodeReport, check: str) -> str:
    return next(finding.value for finding in report.found if finding.check == check)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "preflight").mkdir(parents=True)
    (folder / "preflight" / "driver-1").write_text("t" * 32)
    return folder


def test_a_good_node_fails_nothing_and_leaves_its_file_for_the_driver(run_dir: Path) -> None:
    report = node_says(run_dir, cache_dir=str(run_dir), paths=[str(REPO)], executables=["sh"])
    assert set(states(report).values()) <= {"ok", "skipped"}
    assert (run_dir / "preflight" / "node0-1").read_text() == "t" * 32
    assert states(report)["GPUs"] == "skipped"
    assert "nvidia-smi is not asked" in value(report, "GPUs")


def test_everything_wrong_is_told_at_once(run_dir: Path) -> None:
    report = node_says(
        run_dir,
        paths=["/no/such"],
        executables=["no-such-program"],
        min_free_disk_gb=1e9,
        min_free_memory_gb=1e6,
        devices=["mlx5_77"],
        open_files=2**40,
        cache_dir="/proc/none",
    )
    failed = {check for check, state in states(report).items() if state == "failed"}
    assert failed == {
        *("paths", "programs", "run directory's disk", "memory", "network devices"),
        *("open files", "cache"),
    }


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("token missing", "another folder (node-local?)"),
        ("token of another run", "another content"),
        ("no folder", "no folder under that path"),
        ("read only", "not writable"),
    ],
)
def test_a_run_directory_that_is_not_the_drivers_is_told(
    run_dir: Path, spoil: str, words: str
) -> None:
    folder = run_dir / "preflight"
    if spoil == "token missing":
        (folder / "driver-1").unlink()
    elif spoil == "token of another run":
        (folder / "driver-1").write_text("u" * 32)
    elif spoil == "no folder":
        shutil.rmtree(run_dir)
    else:
        (folder / "node0-1").mkdir()  # root writes everywhere; this it cannot
    report = node_says(run_dir)
    assert states(report)["shared directory"] == "failed"
    assert words in value(report, "shared directory")


def test_a_taken_port_is_reported_with_its_owner_in_the_plan() -> None:
    (port,) = free_ports(1)
    wanted = [{"owner": "prefill0", "what": "http", "port": port}]
    assert [f["state"] for f in network.port_checks("127.0.0.3", wanted)] == ["ok"]
    with socket.socket() as holder:
        holder.bind(("127.0.0.3", port))
        holder.listen()
        (found,) = network.port_checks("127.0.0.3", wanted)
        assert found["state"] == "failed"
        assert found["value"].startswith(f"{port} of prefill0 (http): ")
        assert [f["state"] for f in network.port_checks("127.0.0.4", wanted)] == ["ok"]


def test_a_foreign_address_is_reported_before_its_ports() -> None:
    (found,) = network.network_checks({**SPEC, "address": "192.0.2.1"})
    assert (found["check"], found["state"]) == ("address", "failed")


def test_an_idle_gb200_tray_is_read_whole() -> None:
    facts = gpus.gpu_facts(Smi().text())
    assert facts["driver"] == "580.159.04"
    assert facts["gpus"] == 4
    assert facts["gpu_memory_mib"] == [189471] * 4
    assert facts["nvlink_domains"] == [f"{UUID}/32766"]
    spec = {**SPEC, "needs_gpu": True}
    assert {f["state"] for f in gpus.gpu_checks(spec, Smi().text())} == {"ok"}


SICK = {
    "too few": (Smi(count=3), "GPUs", "3 visible"),
    "a stranger's process": (Smi(used=3599, pids=(481, 482)), "GPUs idle", "pid 481, 482"),
    "memory of nobody": (Smi(used=3599), "GPUs idle", "3.8 GB used"),
    "asks for a reset": (Smi(recovery="Reset"), "GPU health", "recovery action Reset"),
    "errors since reset": (Smi(uncorrectable=3), "GPU health", "3 uncorrectable ECC errors"),
    "rows to remap": (Smi(pending="Yes"), "GPU health", "row remapping pending"),
    "cut in slices": (Smi(mig="Enabled"), "GPU health", "MIG is on"),
}


@pytest.mark.parametrize(("smi", "check", "words"), SICK.values(), ids=SICK)
def test_a_gpu_that_is_not_fit_is_told(smi: Smi, check: str, words: str) -> None:
    found = list(gpus.gpu_checks({**SPEC, "needs_gpu": True}, smi.text()))
    failed = [f for f in found if f["state"] == "failed"]
    assert [f["check"] for f in failed] == [check]
    assert words in failed[0]["value"]


FABRIC = {
    "up": (Smi(), "ok"),
    "not yet": (Smi(state="In Progress", status="N/A", cluster=ZEROS, clique="0"), "failed"),
    "no resources": (
        Smi(status="Insufficient Resources", cluster=ZEROS, clique="0"),
        "failed",
    ),
    "unhealthy": (Smi(health="Unhealthy"), "failed"),
    "no fabric": (Smi(state="N/A", status="N/A", clique="N/A", cluster="N/A"), "skipped"),
    "none of this board": (Smi(state="Not Supported", status="Success"), "skipped"),
}


@pytest.mark.parametrize(("smi", "state"), FABRIC.values(), ids=FABRIC)
def test_the_fabric_must_be_up_where_there_is_one(smi: Smi, state: str) -> None:
    found = {f["check"]: f for f in gpus.fabric_checks(gpus.parse(smi.text())["gpus"])}
    assert found["NVLink fabric"]["state"] == state


@pytest.mark.parametrize("cluster", [ZEROS, "N/A", "", "Not Supported"])
def test_a_cluster_of_zeros_is_no_domain(cluster: str) -> None:
    assert gpus.gpu_facts(Smi(cluster=cluster, clique="0").text())["nvlink_domains"] == []


def test_any_imex_channel_will_do_and_none_will_not() -> None:
    assert gpus.imex_check(["channel7"])["state"] == "ok"
    assert gpus.imex_check([])["state"] == "failed"


def test_the_program_asks_the_nvidia_smi_on_its_path(tmp_path: Path, run_dir: Path) -> None:
    path = Smi(driver="575.51.03").install(tmp_path / "bin")
    report = node_says(run_dir, str(path), needs_gpu=True)
    assert report.facts["driver"] == "575.51.03"
    assert states(report)["GPUs idle"] == "ok"


def test_without_nvidia_smi_it_is_said_what_was_not_looked_at() -> None:
    found = {f["check"]: f["state"] for f in gpus.gpu_checks({**SPEC, "needs_gpu": True}, None)}
    assert found["GPUs"] == "failed"
    assert found["GPUs idle"] == "skipped"


def safetensors(path: Path, data: int, header: dict[str, Any] | None = None) -> None:
    """A file with `data` bytes behind a header that promises 64."""
    head = json.dumps(header or {"w": {"dtype": "U8", "shape": [64], "data_offsets": [0, 64]}})
    path.write_bytes(struct.pack("<Q", len(head)) + head.encode() + b"\0" * data)


def model_folder(path: Path) -> Path:
    path.mkdir()
    (path / "config.json").write_text("{}")
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name in names:
        safetensors(path / name, 64)
    index = {"weight_map": {"a": names[0], "b": names[1]}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return path


def test_a_whole_model_is_fit_and_its_sizes_are_kept(tmp_path: Path) -> None:
    facts: dict[str, Any] = {}
    folder = model_folder(tmp_path / "m")
    (found,) = model_checks({"model": str(folder)}, facts)
    assert found["state"] == "ok"
    assert facts["model_files"]["model-00001-of-00002.safetensors"] == 134


SPOILT = {
    "cut short": ("model-00002-of-00002.safetensors", 100, "100 bytes, its header says 134"),
    "cut in its header": ("model-00001-of-00002.safetensors", 20, "header cannot be read"),
    "empty": ("model-00001-of-00002.safetensors", 0, "header cannot be read"),
    "missing": ("model-00001-of-00002.safetensors", None, "is missing"),
    "no configuration": ("config.json", None, "config.json is missing"),
    "torn index": ("model.safetensors.index.json", 5, "cannot be read"),
}


@pytest.mark.parametrize(("name", "size", "words"), SPOILT.values(), ids=SPOILT)
def test_a_spoilt_model_file_is_named(
    tmp_path: Path, name: str, size: int | None, words: str
) -> None:
    folder = model_folder(tmp_path / "m")
    if size is None:
        (folder / name).unlink()
    else:
        os.truncate(folder / name, size)
    (found,) = model_checks({"model": str(folder)}, {})
    assert found["state"] == "failed"
    assert words in found["value"]


def test_a_missing_model_folder_is_a_problem_and_no_error() -> None:
    (found,) = model_checks({"model": "/no/such/model"}, {})
    assert "No such file" in found["value"]


@pytest.mark.parametrize("header", [{"w": 3}, {"w": {"data_offsets": []}}, {"w": {}}])
def test_a_header_of_another_shape_has_no_size(tmp_path: Path, header: dict[str, Any]) -> None:
    safetensors(tmp_path / "x.safetensors", 64, header)
    assert safetensors_size(tmp_path / "x.safetensors") is None


def test_an_engines_python_tells_its_packages_without_importing_them() -> None:
    versions = ask(sys.executable)
    assert isinstance(versions, dict)
    assert versions["python"].startswith("3.")


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/false", "/bin/echo"])
def test_what_is_no_python_is_told(python: str) -> None:
    assert str(ask(python)).startswith(python)


@pytest.mark.parametrize(
    ("granted", "affinity", "state"),
    [(2, 2, "warned"), (144, 3, "warned"), (2, 144, "warned"), (144, 144, "ok"), (None, 144, "ok")],
)
def test_cpus_are_the_lesser_of_the_grant_and_the_affinity(
    granted: int | None, affinity: int, state: str
) -> None:
    spec = {**SPEC, "needs_gpu": True, "granted_cpus": granted}
    facts = {"cpus": affinity, "free_memory_gb": 9.0, "open_files": [None, None]}
    found = {f["check"]: f for f in host_checks(spec, {**facts, "locked_kib": None})}
    assert found["CPUs"]["state"] == state


@pytest.mark.parametrize(
    ("limits", "needed", "now", "state"),
    [
        ([1024, 65536], 5632, 0, "ok"),
        ([1024, 65536], 5632, 10752, "failed"),
        ([65536, 65536], 5632, 10752, "ok"),
        ([1024, 4096], 5632, 0, "failed"),
        ([None, None], 5632, 10752, "ok"),
    ],
)
def test_open_files_must_reach_for_the_streams(
    limits: list[int | None], needed: int, now: int, state: str
) -> None:
    assert files_check(limits, needed, now)["state"] == state


def test_the_driver_raises_the_soft_limit_that_steps_inherit() -> None:
    code = (
        "import resource as r; files = r.RLIMIT_NOFILE; r.setrlimit(files, (64, 4096));"
        "from jobs.environment import raise_open_files as f; f(); print(r.getrlimit(files))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=REPO, check=True
    )
    assert done.stdout.strip() == "(4096, 4096)"
    assert OPEN_FILES == 65536
    raise_open_files()


GARBAGE = {
    "nothing": ("", "no report; last said: nothing at all"),
    "hung": ("checking network\nchecking model files\n", "it was checking model files"),
    "an error": ("/usr/bin/python: No module named jobs\n", "No module named jobs"),
    "srun's closing remark": (
        "/usr/bin/python: out of memory\nsrun: error: gb1: task 0: Exited with exit code 1\n",
        "last said: '/usr/bin/python: out of memory'",
    ),
    "srun's remark alone": ("srun: error: gb1: task 0: Exited with exit code 1\n", "exit code 1"),
    "no code on that node": (
        "/usr/bin/python: Error while finding module specification for 'jobs.preflight' "
        "(ModuleNotFoundError: No module named 'jobs')\n"
        "srun: error: gb1: task 0: Exited with exit code 1\n",
        "the launcher's code is not in",
    ),
    "torn": (f'{REPORT}{{"node": "gb1"', "garbage instead of a report"),
    "another shape": (f"{REPORT}[]", "garbage instead of a report"),
    "field missing": (f'{REPORT}{{"node": "gb1"}}', "'found' is missing"),
    "another node's": (
        f'{REPORT}{{"node": "gb2", "found": [], "facts": {{}}, "clock": [1.0, 2.0]}}',
        "a report of 'gb2'",
    ),
}


@pytest.mark.parametrize(("text", "words"), GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_report_is_told_in_words(text: str, words: str) -> None:
    report = read_report(text, "gb1")
    assert isinstance(report, str)
    assert words in report


def test_remarks_of_srun_around_a_report_do_not_matter() -> None:
    body = {"node": "gb1", "found": [], "facts": {}, "clock": [1.0, 2.0]}
    text = (
        f"srun: Step created for StepId=77.1\nchecking network\n{REPORT}{json.dumps(body)}\nend\n"
    )
    assert isinstance(read_report(text, "gb1"), NodeReport)
