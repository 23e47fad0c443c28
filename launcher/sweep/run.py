"""python -m launcher -m ...: every combination composed and checked, grouped, then submitted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.composing import CONF_DIR
from launcher.diagnosis import diagnose, suspicious
from launcher.errors import PlanError
from launcher.launching import clean_enough, document_of
from launcher.plain_text import printable
from launcher.provenance import checkout_state
from launcher.site import surroundings
from launcher.snapshot import running_from, take
from launcher.submit import make_run_dir, undo
from launcher.sweep.checks import Sweep, checked
from launcher.sweep.handing import Submission, all_at_once, one_after_another
from launcher.sweep.jobs import job_of, record_of, what_is_missing
from launcher.sweep.previewing import preview_sweep
from launcher.sweep.reuse import Reuse
from launcher.sweep.words import warnings


def run_sweep(words: Sequence[str]) -> int:
    """0 all submitted (or, when followed, all good); 1 otherwise. PlanError submits nothing."""
    with Reuse() as reuse:
        return _run(words, reuse)


def _run(words: Sequence[str], reuse: Reuse) -> int:
    if not any(word.startswith("dry_run=") for word in words):
        reuse.begin()
    if suspicious(words, CONF_DIR) and (found := diagnose(words, CONF_DIR, sys.executable)):
        raise PlanError(found)
    sweep = checked(words)
    dry = sweep.first.dry_run.lower()
    if dry != "true":  # a dry run for people prints each job's own
        for text in warnings(sweep):
            sys.stderr.write(f"warning: {printable(text)}\n")
    if dry != "false":
        preview_sweep(sweep)
        return 0
    return _submit(sweep, reuse)


def _submit(sweep: Sweep, reuse: Reuse) -> int:
    first, groups = sweep.first, sweep.groups
    around = surroundings(first, sys.executable)
    checkout = checkout_state(Path(around.code_dir))
    for group in groups:
        clean_enough(checkout, group.plan.config, around.code_dir)
    label = first.name or "-".join(dict.fromkeys(group.labels["topology"] for group in groups))
    home = make_run_dir(first.cluster.results_dir, label, "sweep-")
    with undo(home):
        snapshot = take(Path(around.code_dir), home)
        record = record_of(sweep, home)
        facts = {"sweep": home.name}
        jobs = [replace(job_of(sweep, group), facts=facts) for group in groups]
        documents: list[dict[str, Any]] = []

        def made() -> Iterator[dict[str, Any]]:
            for job in jobs:
                documents.append(document_of(job, snapshot, checkout))
                yield documents[-1]

        known = reuse.look(made(), first.cluster.results_dir, home, not first.sweep.rerun)
        for place, (entry, have) in enumerate(zip(record.asked, known, strict=True)):
            jobs[place] = what_is_missing(entry, jobs[place], have)
        record.write()
    handing = Submission(record, jobs, documents, snapshot, checkout.diff)
    sys.stdout.write(f"sweep directory  {home}\n")
    running = running_from(snapshot, around)
    if first.cluster.executor == "local":
        return one_after_another(handing, running)
    return all_at_once(handing, running, first)
