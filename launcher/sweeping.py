"""python -m launcher -m ...: every combination composed and checked, grouped, then submitted."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from launcher.composer import Composer
from launcher.composing import CONF_DIR
from launcher.diagnosis import diagnose, diagnose_each, judged, placed, shared_first, suspicious
from launcher.errors import PlanError, SubmissionError
from launcher.follow import stay_with
from launcher.group_checks import whole
from launcher.groups import Group, Member, grouped
from launcher.launching import (
    Job,
    clean_enough,
    document_of,
    hand_over,
    new_run_dir,
    preview,
    told,
)
from launcher.provenance import checkout_state
from launcher.reuse import Reusable, Reuse
from launcher.schema import LaunchConfig
from launcher.site import site_problems, surroundings
from launcher.snapshot import Snapshot, running_from, take
from launcher.steps import Surroundings
from launcher.submit import Submitted, make_run_dir, undo
from launcher.sweep_axes import Axes
from launcher.sweep_record import Asked, SweepRecord, summary
from launcher.table_job import submit_table, write_tables

WRONG = (PlanError, HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError)
THREADS = 4
"""sbatch calls under way at once: jobs keep their order but for neighbours."""
ONE_ONLY = ("dry_run", "wait", "check", "allow_dirty", "cluster.executor", "cluster.results_dir")
"""Keys that speak of the whole sweep."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The combinations of a sweep: those that can run, and why the others cannot."""

    members: list[Member]
    warnings: Mapping[int, tuple[str, ...]]
    skipped: Mapping[int, tuple[str, ...]]
    whole: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Number of a job's first combination -> warnings of the job as a whole."""


def run_sweep(words: Sequence[str]) -> int:
    """0 all submitted (or, when followed, all good); 1 otherwise. PlanError submits nothing."""
    with Reuse() as reuse:
        return _run(words, reuse)


def _run(words: Sequence[str], reuse: Reuse) -> int:
    if not any(word.startswith("dry_run=") for word in words):
        reuse.begin()
    if suspicious(words, CONF_DIR) and (found := diagnose(words, CONF_DIR, sys.executable)):
        raise PlanError(found)
    composer = Composer()
    axes = composer.axes(words)
    _whole_sweep_keys(axes)
    if empty := [key for key, values in axes.columns if not values]:
        raise PlanError(f"{key}: no option matches, so there is nothing to run" for key in empty)
    combinations = axes.combinations()
    names = [" ".join(entry) for entry in combinations]
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise PlanError(f"the sweep has {name} more than once: give it once" for name in repeated)
    made = check_all(composer, combinations, names)
    first = made.members[0].config
    if len({(m.config.cluster.executor, m.config.cluster.results_dir) for m in made.members}) > 1:
        raise PlanError(
            [
                "cluster.executor, cluster.results_dir: all jobs of a sweep share them; start "
                "one sweep for each"
            ]
        )
    if first.cluster.executor == "local" and first.wait.lower() == "false":
        raise PlanError(
            [
                "wait=false with cluster.executor=local: a sweep on this machine runs its jobs one "
                "after another and has to stay; leave wait out"
            ]
        )
    groups = grouped(made.members, first.sweep.order)
    made = _checked_whole(groups, made, axes)
    if first.dry_run.lower() != "false":
        return _preview(groups, made, axes, combinations)
    _warn(made, names)
    return _submit(words, axes, combinations, groups, made, reuse)


def check_all(
    composer: Composer, combinations: Sequence[tuple[str, ...]], names: Sequence[str]
) -> Checked:
    """Every combination composed and checked; PlanError with all problems of all of them.

    With sweep.skip_invalid those that are wrong are left out, unless nothing is left.
    """
    members: list[Member] = []
    warnings: dict[int, tuple[str, ...]] = {}
    bad: dict[int, tuple[str, ...]] = {}
    for number, overrides in enumerate(combinations):
        try:
            made = composer.made(overrides)
        except WRONG as error:
            problems = diagnose_each(overrides, CONF_DIR, sys.executable)
            if not problems and not isinstance(error, PlanError):
                raise
            bad[number] = problems or getattr(error, "problems", ())
            continue
        found = judged(made.config, sys.executable)
        warnings[number] = found.warnings
        if found.problems:
            at = placed(found.problems, overrides, made.labels, CONF_DIR)
            bad[number] = tuple(at)
            continue
        members.append(
            Member(number=number, config=made.config, labels=made.labels, overrides=overrides)
        )
    if bad and not (members and all(member.config.sweep.skip_invalid for member in members)):
        wrong = {name: bad.get(number, ()) for number, name in enumerate(names)}
        raise PlanError(shared_first(wrong))
    return Checked(members, warnings, bad)


def _checked_whole(groups: Sequence[Group], made: Checked, axes: Axes) -> Checked:
    """With what is to be said of each job as a whole; PlanError where one cannot be."""
    problems, warnings = [], {}
    for group in groups:
        found = whole(group, made.warnings)
        label = f"job {label_of(group, axes)}, {len(group.plan.points)} points"
        problems += [f"{text} [{label}]" for text in found.problems]
        warnings[group.members[0].number] = tuple(f"{t} [{label}]" for t in found.warnings)
    if problems:
        raise PlanError(problems)
    return replace(made, whole=warnings)


def _whole_sweep_keys(axes: Axes) -> None:
    wrong = [key for key in axes.swept if key in ONE_ONLY or key.startswith("sweep.")]
    if wrong:
        raise PlanError(
            f"{key}: speaks of the whole sweep, so it cannot be an axis" for key in wrong
        )


def _preview(
    groups: Sequence[Group],
    made: Checked,
    axes: Axes,
    combinations: Sequence[tuple[str, ...]],
) -> int:
    """Each job as it would be submitted; in JSON one document a job."""
    for group in groups:
        job = _job(group, axes, made)
        config = group.plan.config
        around = surroundings(config, sys.executable)
        missing = [
            f"{text} (a submission would stop here)" for text in site_problems(config, around)
        ]
        preview(job, [*job.warnings, *missing])
    asked = [
        Asked(group, label_of(group, axes), planned=[p.name for p in group.plan.points])
        for group in groups
    ]
    first = groups[0].plan.config
    if first.dry_run.lower() == "json":
        _warn(made, [" ".join(entry) for entry in combinations])
        return 0
    record = SweepRecord(Path(), (), axes.swept, combinations, first.sweep, made.skipped, asked)
    sys.stdout.write("\n" + summary(record))
    return 0


def label_of(group: Group, axes: Axes) -> str:
    """Name of a group's job and folder: its topology, and what else sets it apart."""
    plan = group.plan
    if plan.config.name:
        return plan.config.name
    parts = [group.labels["topology"]]
    for word in group.members[0].overrides:
        key, _, value = re.sub(r"['\"\\]", "", word).partition("=")
        key = key.lstrip("+~")
        if key in axes.swept and key != "topology" and not key.startswith(("workload", "accuracy")):
            parts.append(value if "." not in key else f"{key.rsplit('.', 1)[1]}{value}")
    return "-".join(parts)


def _job(group: Group, axes: Axes, made: Checked) -> Job:
    words = group.members[0].overrides if len(group.members) == 1 else _common(group)
    warnings = dict.fromkeys(
        text for member in group.members for text in made.warnings[member.number]
    )
    warnings |= dict.fromkeys(made.whole.get(group.members[0].number, ()))
    return Job(
        plan=group.plan,
        placement=group.placement,
        labels=group.labels,
        overrides=words,
        warnings=list(warnings),
        label=label_of(group, axes),
    )


def _common(group: Group) -> list[str]:
    """Overrides of all the group's combinations, each once."""
    return list(dict.fromkeys(word for member in group.members for word in member.overrides))


def _warn(made: Checked, names: Sequence[str]) -> None:
    found = {names[member.number]: made.warnings[member.number] for member in made.members}
    for warning in shared_first(found):
        sys.stderr.write(f"warning: {warning}\n")
    for warning in dict.fromkeys(text for texts in made.whole.values() for text in texts):
        sys.stderr.write(f"warning: {warning}\n")


@dataclass(slots=True)
class Submission:
    """A sweep being handed over, job by job."""

    record: SweepRecord
    jobs: list[Job]
    documents: list[dict[str, Any]]
    snapshot: Snapshot
    diff: str
    lane: list[Submitted] = field(default_factory=list)
    """The jobs that were taken, in order."""

    def one(self, place: int) -> Submitted | None:
        """The job of one group; None where there is nothing to run, or Slurm refused it."""
        entry, job, document = self.record.asked[place], self.jobs[place], self.documents[place]
        if entry.idle:
            return None
        run_dir = new_run_dir(job, self.record.path)
        limit = self.record.settings.max_jobs
        if limit and len(self.lane) >= limit and job.plan.config.cluster.executor == "slurm":
            entry.after = f"afterany:{job_now(self.lane[-limit])}"
        (run_dir / "content.json").write_text(json.dumps(entry.content) + "\n", encoding="utf-8")
        entry.run_dir = run_dir
        try:
            taken = hand_over(job, document, run_dir, self.snapshot, self.diff, entry.after)
        except SubmissionError as error:
            entry.error, entry.run_dir = str(error), None
            return None
        entry.job_id = taken.job_id
        self.lane.append(taken)
        return taken


def _submit(
    words: Sequence[str],
    axes: Axes,
    combinations: Sequence[tuple[str, ...]],
    groups: Sequence[Group],
    made: Checked,
    reuse: Reuse,
) -> int:
    first = groups[0].plan.config
    around = surroundings(first, sys.executable)
    checkout = checkout_state(Path(around.code_dir))
    for group in groups:
        clean_enough(checkout, group.plan.config, around.code_dir)
    label = first.name or "-".join(dict.fromkeys(group.labels["topology"] for group in groups))
    home = make_run_dir(first.cluster.results_dir, label, "sweep-")
    with undo(home):
        snapshot = take(Path(around.code_dir), home)
        asked = [Asked(group, label_of(group, axes)) for group in groups]
        record = SweepRecord(
            home, words, axes.swept, combinations, first.sweep, made.skipped, asked
        )
        facts = {"sweep": home.name}
        jobs = [replace(_job(group, axes, made), facts=facts) for group in groups]
        documents = [document_of(job, snapshot, checkout) for job in jobs]
        known = reuse.look(documents, first.cluster.results_dir, home, not first.sweep.rerun)
        for place, (entry, have) in enumerate(zip(asked, known, strict=True)):
            jobs[place] = _what_is_missing(entry, jobs[place], have)
        record.write()
    handing = Submission(record, jobs, documents, snapshot, checkout.diff)
    sys.stdout.write(f"sweep directory  {home}\n")
    running = running_from(snapshot, around)
    if first.cluster.executor == "local":
        return _one_after_another(handing, running)
    return _all_at_once(handing, running, first)


def _what_is_missing(entry: Asked, job: Job, have: Reusable) -> Job:
    """The job without what is measured already, which the record names with its origin."""
    points = job.plan.points
    entry.content = have.content
    entry.reused = [
        {"point": points[index].name, **origin} for index, origin in have.points.items()
    ]
    entry.accuracy_from = dict(have.accuracy) if have.accuracy else None
    missing = [point for point in points if point.index not in have.points]
    entry.planned = [point.name for point in missing]
    trimmed = replace(
        job,
        measured=frozenset(point.index for point in missing),
        asks=have.accuracy is None,
    )
    entry.idle = not missing and not trimmed.asks_now()
    return trimmed


def _one_after_another(handing: Submission, around: Surroundings) -> int:
    """On this machine: each run to its end, a failed one stops no other; then the tables."""
    codes, record = [], handing.record
    sys.stdout.write(summary(record))
    for place, entry in enumerate(record.asked):
        taken = handing.one(place)
        record.write()
        if entry.error:
            sys.stderr.write(f"error: {entry.name}: {entry.error}\n")
            codes.append(1)
        if taken is None:
            continue
        sys.stdout.write(told(handing.jobs[place], taken, around.python))
        stayed = stay_with(taken, around)
        codes.append(stayed.code)
        if stayed.interrupted:
            sys.stderr.write("stopped: the sweep's other runs are not started\n")
            break
    codes.append(write_tables(record.path, around))
    sys.stdout.write(_ends(record, codes))
    return 1 if any(codes) else 0


def _ends(record: SweepRecord, codes: Sequence[int]) -> str:
    bad = sum(bool(code) for code in codes[:-1])
    text = f"{bad} of {len(codes) - 1} runs did not end well" if bad else "all runs ended well"
    return f"{text}; tables in {record.path}/table.{{txt,md,csv}}\n"


def _all_at_once(handing: Submission, around: Surroundings, config: LaunchConfig) -> int:
    """On Slurm: every job handed over, whatever became of the others, and the table job after."""
    record, taken = handing.record, []
    try:
        # Lanes need the ids of earlier jobs; without them sbatch's answers are waited for together.
        threads = 1 if record.settings.max_jobs else THREADS
        with ThreadPoolExecutor(threads) as pool:
            for place, one in enumerate(pool.map(handing.one, range(len(record.asked)))):
                if one is not None:
                    taken.append((place, one))
        if config.sweep.table and taken:
            ids = [job_now(one) for _, one in taken]
            record.table_job, record.table_error = submit_table(record.path, config, around, ids)
    finally:
        record.write()
    if config.sweep.table and not taken and any(entry.reused for entry in record.asked):
        write_tables(record.path, around)
    sys.stdout.write(summary(record) + _watch_line(record) + _table_line(record))
    sys.stdout.flush()
    refused = any(entry.error for entry in record.asked) or record.table_error is not None
    if config.wait.lower() != "true":
        return int(refused)
    codes = [stay_with(one, around).code for _, one in taken]
    codes.append(write_tables(record.path, around))
    return int(refused or any(codes))


def _watch_line(record: SweepRecord) -> str:
    home = shlex.quote(str(record.path))
    return f"watch: python -m jobs watch {home}; all of it: python -m jobs show {home}\n"


def job_now(taken: Submitted) -> str:
    """The run's job: one that failed its preflight already may have been submitted again."""
    record = json.loads((taken.run_dir / "submission.json").read_text(encoding="utf-8"))
    return str(record["job_id"])


def _table_line(record: SweepRecord) -> str:
    by_hand = f"python -m analysis table {record.path}"
    if record.table_error:
        return f"no table job: {record.table_error}; when all has ended: {by_hand}\n"
    if record.table_job:
        return (
            f"tables: job {record.table_job} writes them there at the end; until then: {by_hand}\n"
        )
    return f"tables: {by_hand}\n"
