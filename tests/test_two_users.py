"""Two users, one machine, the same second: neither sees, shares or spoils anything of the other."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.store import RunDir
from tests.fakes_jobs import REPO, left_over, make_run, pair_run

USERS = (20001, 20002)
"""Ids that nobody has; a process may have them all the same."""


def anybodys_python() -> str | None:
    """A Python of our version that other users may run: ours, or the system's."""
    for path in (Path(sys.executable), Path("/usr/bin/python3")):
        code = "import sys; print(*sys.version_info[:2])"
        try:
            done = subprocess.run(
                [str(path), "-c", code],
                user=USERS[0],
                group=USERS[0],
                extra_groups=[],
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            continue
        if done.stdout.split() == [str(part) for part in sys.version_info[:2]]:
            return str(path)
    return None


pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or anybodys_python() is None,
    reason="needs root, to become other users, and a Python that they may run",
)


def document(python: str, cache: str, run_id: str) -> dict[str, Any]:
    """A pair behind the real router, all started by `python`, with caches below `cache`."""
    found = pair_run(
        canary={"enabled": True, "prompts": 2, "tokens": 4, "prompt_tokens": 64, "form": "exact"}
    )
    steps = [*found["plan"]["workers"], found["plan"]["router"]]
    for step in [*steps, *(point["step"] for point in found["plan"]["points"])]:
        for key in ("argv", "command"):
            words = [python if word == sys.executable else word for word in step[key]]
            if words[0].endswith("vllm-router"):
                words[:1] = [python, "-m", "vllm_router.launch_router"]
            step[key] = words
    found["plan"]["preflight"]["cache_dir"] = cache
    found["run_id"] = run_id
    return found


def begin(user: int, run: RunDir, python: str) -> subprocess.Popen[str]:
    """`python -m jobs run RUN` as that user."""
    where = os.pathsep.join([str(REPO), sysconfig.get_path("purelib")])
    with (run.path / "driver.log").open("w") as stream:
        return subprocess.Popen(
            [python, "-m", "jobs", "run", str(run.path)],
            user=user,
            group=user,
            extra_groups=[],
            cwd="/",
            stdout=stream,
            stderr=stream,
            text=True,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": where, "HOME": str(run.path.parent)},
        )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter; pytest closes its own ones again and again."""
    with tempfile.TemporaryDirectory(prefix="two-users-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_two_users_runs_of_one_second_share_nothing(open_folder: Path) -> None:
    python = anybodys_python()
    assert python is not None
    cache = open_folder / "cache"
    cache.mkdir()
    cache.chmod(0o1777)
    runs = []
    for user in USERS:
        home = open_folder / str(user)
        run = make_run(home / "run", document(python, str(cache), f"r-{user}"))
        for path in (home, run.path, run.run_json):
            os.chown(path, user, user)
        home.chmod(0o700)
        run.run_json.chmod(0o600)
        runs.append(run)

    drivers = [begin(user, run, python) for user, run in zip(USERS, runs, strict=True)]
    ends = [driver.wait(120) for driver in drivers]

    assert ends == [0, 0], [(run.path / "driver.log").read_text()[-3000:] for run in runs]
    addresses = [
        {node["address"] for node in json.loads(run.allocation.read_text())["nodes"]}
        for run in runs
    ]
    assert addresses[0] & addresses[1] == set()
    for user, run in zip(USERS, runs, strict=True):
        assert left_over(run) == []
        record = json.loads(run.point(0, 4).read_text())
        assert record["failed"] == 0
        assert record["completed"] == 16
        owners = {path.stat().st_uid for path in run.path.rglob("*")}
        assert owners <= {user, 0}  # driver.log is this test's
        open_to_others = [
            path
            for path in run.path.rglob("*")
            if path.stat().st_uid == user and stat.S_IMODE(path.stat().st_mode) & 0o077
        ]
        assert open_to_others == []
    for folder in cache.iterdir():
        assert folder.name == f"launcher-{folder.stat().st_uid}"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
