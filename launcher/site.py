"""What can be seen from the login node before anything is submitted: files, environments, data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from launcher.engines import ENGINES
from launcher.model_files import fact_problems
from launcher.plan import build_plan
from launcher.questions import question_problems
from launcher.schema import LaunchConfig
from launcher.steps import Surroundings

CODE_DIR = str(Path(__file__).resolve().parent.parent)
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "tekken.json",
    "tiktoken.model",
)


def surroundings(config: LaunchConfig, python: str) -> Surroundings:
    """Interpreter and checkout as the nodes will find them (same paths: a shared file system)."""
    return Surroundings(
        python=config.cluster.python or python, code_dir=CODE_DIR, env={"PYTHONPATH": CODE_DIR}
    )


def settle_paths(config: LaunchConfig) -> None:
    """Relative paths made absolute, since the job runs elsewhere."""
    config.cluster.results_dir = _absolute(config.cluster.results_dir)
    config.model.path = _absolute(config.model.path)
    if config.model.tokenizer:
        config.model.tokenizer = _absolute(config.model.tokenizer)
    if config.engine.env_dir:
        config.engine.env_dir = _absolute(config.engine.env_dir)
    if config.accuracy.data_dir:
        config.accuracy.data_dir = _absolute(config.accuracy.data_dir)
    if config.workload.trace.path:
        config.workload.trace.path = _absolute(config.workload.trace.path)


def _absolute(path: str) -> str:
    """Empty text, which names no folder, stays empty: a rule refuses it."""
    return path and str(Path(path).expanduser().absolute())


def site_problems(config: LaunchConfig, around: Surroundings) -> Iterator[str]:
    """Everything missing that this machine can see."""
    rehearsal = ENGINES[config.engine.kind].rehearsal
    if config.cluster.login_sees_models and not rehearsal:
        yield from _model(config)
        yield from _engine(config)
    if config.accuracy.dataset == "gsm8k":
        yield from _questions(config)
    if config.accuracy.dataset in ("gsm8k", "word_problems"):
        yield from question_problems(config.accuracy, Path(around.code_dir))
    if config.workload.source == "trace":
        yield from _trace(config)
    yield from _router(config, around)
    if config.cluster.executor == "local" and not os.access(around.python, os.X_OK):
        yield (
            f"cluster.python={around.python}: there is no such program; leave it null for the "
            "interpreter that runs the launcher"
        )
    if not Path(around.code_dir, "jobs").is_dir():
        yield (
            f"the launcher's checkout {around.code_dir} has no jobs/ folder: run the launcher from "
            "a whole checkout"
        )


def _trace(config: LaunchConfig) -> Iterator[str]:
    """A trace with too few requests for the largest point, or none at all."""
    path = config.workload.trace.path or ""
    most = max((point.num_prompts for point in build_plan(config).points), default=0)
    try:
        with Path(path).open(encoding="utf-8") as stream:
            requests = sum(1 for line in stream if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        yield f"workload.trace.path={path}: cannot be read: {error}"
        return
    if requests < most:
        yield (
            f"workload.trace.path={path}: has {requests} requests, and the largest point asks for "
            f"{most}; lower workload.concurrency or workload.prompts_per_concurrency"
        )


def model_files(config: LaunchConfig) -> dict[str, int]:
    """Bytes of the model's files as seen here, for the preflight to compare; empty unseen."""
    folder = Path(config.model.path)
    rehearsal = ENGINES[config.engine.kind].rehearsal
    if rehearsal or not config.cluster.login_sees_models or not folder.is_dir():
        return {}
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}


def _router(config: LaunchConfig, around: Surroundings) -> Iterator[str]:
    """vllm-router, where the login node sees what the nodes will see."""
    named = config.router.executable
    path = Path(named) if named else Path(around.python).parent / "vllm-router"
    elsewhere = config.cluster.executor == "slurm" and not config.cluster.login_sees_models
    if elsewhere or (config.cluster.python and not named) or os.access(path, os.X_OK):
        return
    yield (
        f"router.executable={path}: there is no such program; name vllm-router's path, pip install "
        "vllm-router beside the interpreter, or set cluster.login_sees_models=false if only the "
        "nodes see it"
    )


def _model(config: LaunchConfig) -> Iterator[str]:
    path = Path(config.model.path)
    remedy = (
        "set model.path to the local folder of the model, or cluster.login_sees_models=false if "
        "only the nodes see it"
    )
    if not path.is_dir():
        yield f"model.path={path}: there is no such folder; {remedy}"
        return
    if not (path / "config.json").is_file():
        yield f"model.path={path}: has no config.json, so it is not a model folder; {remedy}"
    yield from fact_problems(config)
    tokenizer = Path(config.model.tokenizer or path)
    if not any((tokenizer / name).is_file() for name in TOKENIZER_FILES):
        yield (
            f"model.tokenizer={tokenizer}: no tokenizer there (looked for "
            f"{', '.join(TOKENIZER_FILES)}); set model.tokenizer to its folder"
        )


def _engine(config: LaunchConfig) -> Iterator[str]:
    if config.cluster.container.kind != "none":
        image = config.cluster.container.image or ""
        if image.startswith("/") and not Path(image).exists():
            yield f"cluster.container.image={image}: there is no such file"
        return
    if config.engine.env_dir is None:
        yield (
            "engine.env_dir is not set and cluster.container.kind=none: name the environment that "
            "holds vllm (its bin/vllm is run), or a container (cluster.container.kind=pyxis "
            "cluster.container.image=...)"
        )
        return
    program = Path(config.engine.env_dir, "bin", "vllm")
    if not os.access(program, os.X_OK):
        hint = (
            "make it with python3 envs/vllm_cpu/make_env.py"
            if config.engine.device == "cpu"
            else "pip install 'nvl72-launcher[engine]' into it"
        )
        yield f"engine.env_dir={config.engine.env_dir}: has no bin/vllm that can be run; {hint}"


def _questions(config: LaunchConfig) -> Iterator[str]:
    remedy = (
        "put GSM8K's test.jsonl and train.jsonl (openai/grade-school-math) in a folder and set "
        "accuracy.data_dir, or GSM8K_DIR in the environment; or accuracy=none"
    )
    if config.accuracy.data_dir is None:
        yield f"accuracy.data_dir is not set: {remedy}"
        return
    for name in ("test.jsonl", "train.jsonl"):
        path = Path(config.accuracy.data_dir, name)
        if not path.is_file():
            yield f"accuracy.data_dir: {path} is not there; {remedy}"
