"""A run directory is made, then handed over; nothing else crosses."""

from __future__ import annotations

import fcntl
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import submitit

from launcher.batch import batch_command, sbatch_text
from launcher.blocks import holds, segment_advice
from launcher.cluster_blocks import read_blocks
from launcher.document import plain, spread
from launcher.engines import ENGINES
from launcher.errors import SubmissionError
from launcher.placement import Placement
from launcher.plan import LaunchPlan
from launcher.sbatch import NO_NODES, NO_TOPOLOGY, sbatch
from launcher.segment import smaller_segments
from launcher.snapshot import Snapshot, sealed
from launcher.steps import Surroundings


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job the executor took."""

    job_id: str
    run_dir: Path
    log: Path
    """What the driver prints."""
    collect: Callable[[], object]
    """Collects the exit code of a local driver's process, so that its end can be seen."""
    segment: dict[str, Any] | None = None
    """What was asked, what was used and why, where a smaller segment was taken."""


def make_run_dir(results_dir: str, label: str, kind: str = "") -> Path:
    """A new private folder <time>-<label>-<random>, unique under any start rate."""
    root = Path(results_dir)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SubmissionError(
            f"cluster.results_dir={results_dir}: cannot be made: {error.strerror}; name a folder "
            "that you may write and that the nodes share"
        ) from error
    while True:
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{_legal(label)}-{kind}{secrets.token_hex(3)}"
        try:
            (root / name).mkdir(mode=0o700)
        except FileExistsError:
            continue
        return root / name


def _legal(label: str) -> str:
    """A label as part of a folder's name."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._") else "-" for c in label)
    return kept.strip("-.")[:60] or "run"


def run_document(
    plan: LaunchPlan,
    plan_document: dict[str, Any],
    run_id: str,
    labels: dict[str, str],
    origin: dict[str, Any],
) -> dict[str, Any]:
    """run.json: everything the job and the analysis will ever know about this submission."""
    engine = plan.config.engine
    return {
        "schema": 1,
        "run_id": run_id,
        "name": plan.config.name or labels["topology"],
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "labels": labels,
        "engine": {
            "name": engine.name,
            "protocol": ENGINES[engine.kind].protocol,
            "release": engine.release,
            "rehearsal": ENGINES[engine.kind].rehearsal,
        },
        "config": plain(plan.config),
        "provenance": origin,
        "plan": plan_document,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run, ready to be handed over."""

    plan: LaunchPlan
    placement: Placement
    run_dir: Path
    around: Surroundings
    """As the job will have it: its code is the snapshot's."""
    snapshot: Snapshot | None
    options: Mapping[str, str] = field(default_factory=dict)
    """sbatch options that only this submission knows: comment, dependency."""
    diff: str = ""


@contextmanager
def undo(run_dir: Path) -> Iterator[None]:
    """Nothing is left of a run that was not submitted."""
    try:
        yield
    except BaseException:
        shutil.rmtree(run_dir, ignore_errors=True)
        raise


def submit(order: Order, document: dict[str, Any]) -> Submitted:
    """Write run.json and hand the run directory over; a refusal undoes it all."""
    run_dir, plan = order.run_dir, order.plan
    with _submitting(run_dir):
        with undo(run_dir):
            document = sealed(document, order.snapshot)
            _write(run_dir / "run.json", document)
            if order.diff:
                (run_dir / "uncommitted.diff").write_text(order.diff, encoding="utf-8")
            if plan.config.cluster.executor == "local":
                submitted = _submit_local(order, document)
            else:
                submitted = _submit_in_segments(order, document)
        record: dict[str, Any] = {"executor": plan.config.cluster.executor}
        record |= {"job_id": submitted.job_id, "log": str(submitted.log)}
        if submitted.segment:
            record |= {"segment": submitted.segment}
        _write(run_dir / "submission.json", record)
    return submitted


@contextmanager
def _submitting(run_dir: Path) -> Iterator[None]:
    """A locked file in the run directory until its job is known, or the run is undone.

    `python -m jobs list | cancel` know by it that a job may still come: sbatch waits for its
    controller as long as cluster.controller_s.
    """
    path = run_dir / "submitting.lock"
    with held(path):
        yield
        path.unlink(missing_ok=True)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """A file with this process's lock on it; without one where the file system knows no locks."""
    with path.open("w", encoding="utf-8") as stream:
        with suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(spread(document, 2) + "\n", encoding="utf-8")


def _job_label(name: str, run_dir: Path) -> str:
    """Unique in squeue: the label and the random end of the run directory's name."""
    return f"{name}-{run_dir.name.rsplit('-', 1)[-1]}"


def _submit_in_segments(order: Order, document: dict[str, Any]) -> Submitted:
    """The job with its segment; with cluster.segment_fallback=divisor the next that Slurm holds.

    run.json names the segment in use before the job can begin.
    """
    plan, placement, run_dir = order.plan, order.placement, order.run_dir
    name, asked = _job_label(document["name"], run_dir), document["plan"]["segment"]
    try:
        return _submit_slurm(order, document, name, None)
    except SubmissionError as error:
        refused = str(error)
    cluster, nodes = plan.config.cluster, placement.nodes
    blocks = read_blocks(cluster)
    fits = blocks is None or (asked is not None and holds(blocks, nodes, asked))
    if asked is None or not (NO_TOPOLOGY in refused or (NO_NODES in refused and not fits)):
        raise SubmissionError(refused)
    sizes = smaller_segments(placement, asked)
    if cluster.segment_fallback == "divisor":
        for size in (size for size in sizes if blocks is None or holds(blocks, nodes, size)):
            document["plan"] |= {"segment": size, "segment_asked": asked}
            document = sealed(document, order.snapshot)
            _write(run_dir / "run.json", document)
            told = {"asked": asked, "used": size, "why": refused.splitlines()[0]}
            try:
                return replace(_submit_slurm(order, document, name, size), segment=told)
            except SubmissionError as error:
                if NO_TOPOLOGY not in str(error) and NO_NODES not in str(error):
                    raise  # a job may have been taken: not another one
    raise SubmissionError(f"{refused}\n  {segment_advice(nodes, asked, sizes, blocks)}")


def _seal_of(document: dict[str, Any]) -> str | None:
    """The hash that the batch script carries: that of the document as run.json has it."""
    seal = document.get("snapshot")
    return str(seal["sha256"]) if seal else None


def _submit_slurm(
    order: Order, document: dict[str, Any], name: str, smaller: int | None
) -> Submitted:
    plan, placement, run_dir, around = order.plan, order.placement, order.run_dir, order.around
    script = run_dir / "batch.sh"
    text = sbatch_text(
        plan, placement, name, str(run_dir), around, smaller, order.options, _seal_of(document)
    )
    script.write_text(text, encoding="utf-8")
    job_id = sbatch(script, around.env)
    log = run_dir / "submitit" / f"{job_id}_0_log.out"
    return Submitted(job_id, run_dir, log, lambda: None)


def _submit_local(order: Order, document: dict[str, Any]) -> Submitted:
    run_dir, around = order.run_dir, order.around
    executor = submitit.LocalExecutor(folder=run_dir / "submitit")
    executor.update_parameters(timeout_min=24 * 60)
    words = ["/bin/sh", "-c", batch_command(str(run_dir), around, _seal_of(document))]
    # Ctrl-C at a terminal reaches every process of the foreground: the processes between launcher
    # and driver must not die of it, the driver alone ends the run in order.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job = executor.submit(subprocess.call, words)
    finally:
        signal.signal(signal.SIGINT, previous)
    return Submitted(job.job_id, run_dir, job.paths.stdout, job.done)
