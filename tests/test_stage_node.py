"""A model copied to this machine's disk by the node's own program: whole, reused, or one error."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs.cache_folder import KEPT_S, CacheFolderError, claim_kept, kept_folder
from jobs.preflight.storage import storage_checks
from jobs.stage.__main__ import PROGRESS, REPORT, stage
from jobs.stage.shelf import StageError, make_way, models_folder, note_use
from tests.fakes_jobs import REPO
from tests.test_preflight_node import SPEC as PREFLIGHT
from tests.test_preflight_node import safetensors

NAME = "model-0123456789ab"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A model's folder with weights, a link to a file (as a hub's cache has) and a subfolder."""
    folder = tmp_path / "model"
    (folder / "extra").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "extra" / "notes.txt").write_text("notes")
    (folder / ".hidden").write_text("not copied")
    safetensors(folder / "model.safetensors", 64)
    (tmp_path / "blob").write_bytes(b"tokens" * 100)
    (folder / "tokenizer.json").symlink_to(tmp_path / "blob")
    return folder


def spec(source: Path, base: Path, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        **{"node": "gb1", "run_id": "run-1", "source": str(source), "dir": str(base)},
        **{"name": NAME, "verify": "sizes", "files_at_once": 4, "keep": 2},
    }
    return {**told, "min_free_disk_gb": 0.0, **more}


def copy_of(base: Path) -> Path:
    return models_folder(str(base)) / NAME


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_model_is_copied_whole_once_and_then_reused(source: Path, tmp_path: Path) -> None:
    first = stage(spec(source, tmp_path / "disk"))
    copy = copy_of(tmp_path / "disk")
    assert (first["state"], first["files"]) == ("copied", 4)
    assert names(copy) == ["config.json", "extra/notes.txt", "model.safetensors", "tokenizer.json"]
    assert not (copy / "tokenizer.json").is_symlink()
    assert (copy / "tokenizer.json").read_bytes() == b"tokens" * 100
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    before = (copy / "config.json").stat().st_ino
    assert stage(spec(source, tmp_path / "disk"))["state"] == "reused"
    assert (copy / "config.json").stat().st_ino == before


def test_a_copy_that_became_short_is_an_error_that_names_file_and_sizes(
    source: Path, tmp_path: Path
) -> None:
    stage(spec(source, tmp_path / "disk"))
    weights = copy_of(tmp_path / "disk") / "model.safetensors"
    size = weights.stat().st_size
    os.truncate(weights, size - 7)
    text = rf"model\.safetensors has {size - 7:,} bytes instead of {size:,}.*rm -r"
    with pytest.raises(StageError, match=text):
        stage(spec(source, tmp_path / "disk"))


def test_other_bytes_of_the_same_size_are_found_where_content_is_verified(
    source: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    stage(spec(source, disk, verify="content"))
    (copy_of(disk) / "extra" / "notes.txt").write_text("nOtes")
    assert stage(spec(source, disk))["state"] == "reused"
    with pytest.raises(StageError, match=r"extra/notes\.txt has another content"):
        stage(spec(source, disk, verify="content"))


def test_a_model_that_changed_is_copied_again(source: Path, tmp_path: Path) -> None:
    stage(spec(source, tmp_path / "disk"))
    (source / "config.json").write_text('{"a": 1}')
    assert stage(spec(source, tmp_path / "disk"))["state"] == "copied"
    assert (copy_of(tmp_path / "disk") / "config.json").read_text() == '{"a": 1}'


def test_a_copy_without_its_manifest_is_never_believed(source: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    stage(spec(source, disk))
    copy = copy_of(disk)
    copy.with_name(f"{NAME}.json").unlink()
    (copy / "left-over").write_text("of a copy that was cut off")
    copy.with_name(f".{NAME}.partial").mkdir()
    assert stage(spec(source, disk))["state"] == "copied"
    assert "left-over" not in names(copy)
    assert not copy.with_name(f".{NAME}.partial").exists()


def test_weights_that_are_short_by_their_own_header_are_not_staged(
    source: Path, tmp_path: Path
) -> None:
    os.truncate(source / "model.safetensors", 100)
    with pytest.raises(StageError, match="the original is damaged"):
        stage(spec(source, tmp_path / "disk"))
    assert not copy_of(tmp_path / "disk").exists()


def test_what_does_not_fit_is_told_before_anything_is_copied(source: Path, tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"GB free, .* GB to be copied and 1e\+09 GB to be left"):
        stage(spec(source, tmp_path / "disk", min_free_disk_gb=1e9))
    found = {f["check"]: f for f in _storage(source, tmp_path, min_free_disk_gb=1e9)}
    assert found["staged model"]["state"] == "failed"
    found = {f["check"]: f for f in _storage(source, tmp_path)}
    assert found["staged model"]["value"] == "room for it"
    stage(spec(source, tmp_path / "disk"))
    found = {f["check"]: f for f in _storage(source, tmp_path)}
    assert found["staged model"]["value"] == "there already"


def _storage(source: Path, tmp_path: Path, **more: Any) -> list[dict[str, Any]]:
    asked = {**PREFLIGHT, "run_dir": str(tmp_path), "token_file": "none"}
    return list(storage_checks({**asked, "stage": spec(source, tmp_path / "disk", **more)}))


def test_two_runs_on_one_node_make_one_copy(source: Path, tmp_path: Path) -> None:
    packed = base64.b64encode(json.dumps(spec(source, tmp_path / "disk")).encode()).decode()
    both = [
        subprocess.Popen(
            [sys.executable, "-S", "-m", "jobs.stage", packed],
            cwd=REPO,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [one.communicate(timeout=120)[0] for one in both]
    lines = [line for text in said for line in text.splitlines() if line.startswith(REPORT)]
    states = [json.loads(line.removeprefix(REPORT))["state"] for line in lines]
    assert sorted(states) == ["copied", "reused"]


FULL = """
import sys
from pathlib import Path
from jobs.stage.copying import Copied, copy_all
from jobs.stage.shelf import StageError, source_files
source, target = Path(sys.argv[1]), Path(sys.argv[2])
try:
    copy_all(source, target, source_files(source), 4, False, Copied())
except StageError as error:
    print(error)
"""


def test_a_disk_that_fills_up_while_it_is_copied_to_is_named(tmp_path: Path) -> None:
    """A tmpfs of 1 MB in a mount namespace of its own."""
    source, disk = tmp_path / "model", tmp_path / "disk"
    source.mkdir()
    disk.mkdir()
    (source / "a.bin").write_bytes(bytes(3_000_000))
    script = f'mount -t tmpfs -o size=1m none {disk} && exec "$@"'
    words = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh"]
    if os.geteuid() == 0:
        words.remove("--map-root-user")
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("no mount namespace here (unshare --mount)")
    line = [*words, sys.executable, "-c", FULL, str(source), str(disk / "copy")]
    done = subprocess.run(line, cwd=REPO, capture_output=True, text=True, check=True)
    assert "a.bin: No space left on device" in done.stdout
    assert "set cluster.stage.dir elsewhere" in done.stdout


def test_models_unused_for_longest_make_way_but_none_that_is_in_use(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "used", "old"]):
        (tmp_path / name).mkdir()
        note_use(tmp_path / name, f"run-{name}")
        os.utime(tmp_path / f"{name}.used", (1e9 - age, 1e9 - age))
    assert make_way(tmp_path, NAME, 4, []) == []
    assert make_way(tmp_path, NAME, 2, ["run-used-0a1b"]) == ["old"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["new", "used"]


def test_progress_is_told_while_it_waits_for_another_run(source: Path, tmp_path: Path) -> None:
    asked = spec(source, tmp_path / "disk")
    stage(asked)
    lock = copy_of(tmp_path / "disk").with_name(f"{NAME}.lock")
    packed = base64.b64encode(json.dumps(asked).encode()).decode()
    words = ["flock", str(lock), "sleep", "600"]
    holder = subprocess.Popen(words, start_new_session=True)
    try:
        while subprocess.run(["flock", "-n", str(lock), "true"], check=False).returncode == 0:
            pass
        line = [sys.executable, "-S", "-m", "jobs.stage", packed]
        with subprocess.Popen(line, cwd=REPO, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            waits = [other.stdout.readline(), other.stdout.readline()][1]
            other.kill()
    finally:
        os.killpg(holder.pid, 9)
        holder.wait()
    told = json.loads(waits.removeprefix(PROGRESS))
    assert told == {"waits": "another run stages this model here"}


def test_kept_caches_are_this_users_alone_and_go_when_nobody_uses_them(tmp_path: Path) -> None:
    base = str(tmp_path)
    assert claim_kept(base, "0a") == []
    (kept_folder(base) / "0a" / "decode0").mkdir()
    long_ago = kept_folder(base).stat().st_mtime - KEPT_S - 60
    os.utime(kept_folder(base) / "0a", (long_ago, long_ago))
    assert claim_kept(base, "0b") == ["0a"]
    kept_folder(base).chmod(0o755)
    with pytest.raises(CacheFolderError, match="open to other users"):
        claim_kept(base, "0b")
