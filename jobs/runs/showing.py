"""`show RUN`: everything about one run in readable form."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence

from jobs.attempts import Attempt, count
from jobs.plain_text import printable
from jobs.record_files import read_record
from jobs.records import BenchPoint, RecordError
from jobs.run_spec import RunSpec
from jobs.runs.facts import RunFacts
from jobs.runs.looking import Seen
from jobs.runs.measuring import measuring, measuring_text
from jobs.runs.timeline import seconds
from jobs.runs.words import clock, columns, duration, number


def show_text(one: Seen) -> str:
    """All sections; those without content are left out."""
    sections = [
        _head(one),
        _outcome(one),
        _plan(one.facts),
        _nodes(one.facts),
        _attempts(one.facts),
        _phases(one),
        _workers(one.facts),
        _points(one.facts),
        _accuracy(one.facts),
        _where(one.facts),
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines) + "\n"


def _head(one: Seen) -> Iterator[str]:
    facts, standing = one.facts, one.standing
    yield f"run         {facts.name}"
    yield f"directory   {printable(str(facts.run_dir.path))}"
    slurm = f"; Slurm: {standing.slurm}" if standing.slurm else ""
    yield f"state       {standing.text}{slurm}"
    if standing.disagrees:
        yield f"disagree    {standing.remark}"
    submission = facts.submission
    if submission.executor:
        yield f"job         {submission.executor} {submission.job_id}"
    yield f"submitted   {clock(facts.created)}" + _by(facts)
    if facts.spec and facts.spec.engine.rehearsal:
        yield "REHEARSAL   stand-in servers: its numbers are made up, never a result"


def _by(facts: RunFacts) -> str:
    origin = facts.provenance
    sha = str(origin.get("git_sha") or "")[:12]
    dirty = " with uncommitted changes" if origin.get("git_dirty") else ""
    who = f"{origin.get('user', '?')}@{origin.get('host', '?')}" if origin else ""
    code = f", code {sha}{dirty}" if sha else ""
    return printable(f" by {who}{code}") if who else ""


def _outcome(one: Seen) -> Iterator[str]:
    outcome = one.standing.state.outcome
    if outcome is None:
        if one.standing.over:
            yield f"outcome     none: {one.standing.remark}"
        return
    yield (
        f"outcome     {outcome.status} in {printable(outcome.phase)}, "
        f"{outcome.points_written} of {outcome.points_planned} points"
    )
    for line in printable(outcome.cause, keep="\n").splitlines():
        yield f"            {line}"


def _plan(facts: RunFacts) -> Iterator[str]:
    spec = facts.spec
    if spec is None:
        return
    plan = spec.plan
    yield f"plan        {_deployment(spec)}"
    serving, allocated = facts.plan.get("serving_gpus"), facts.plan.get("allocated_gpus")
    gpus = f", {serving} serving of {allocated} GPUs" if serving and allocated else ""
    yield f"            {plan.nodes} nodes{gpus}, model {printable(plan.served_model)}"
    engine = f"{spec.engine.name} {spec.engine.release}"
    chosen = ", ".join(f"{key}={value}" for key, value in facts.labels.items() if key != "topology")
    yield f"            engine {printable(engine)}; {chosen}"
    if plan.points:
        sizes = ", ".join(dict.fromkeys(str(point.concurrency) for point in plan.points))
        rates = {point.sending.request_rate or 0.0 for point in plan.points} - {0.0}
        sizes += f" at {', '.join(f'{rate:g}' for rate in sorted(rates))} req/s" if rates else ""
        repeats = max(point.repeat for point in plan.points) + 1
        sizes += f", each {repeats} times" if repeats > 1 else ""
        first = plan.points[0]
        yield (
            f"            {len(plan.points)} points at concurrency {sizes}; ISL/OSL "
            f"{first.isl}/{first.osl}, {printable(first.range.definition)} {first.range.ratio:g}"
        )


def _deployment(spec: RunSpec) -> str:
    """`prefill 4 x DP2, decode 1 x DP8`, then the router."""
    parts = []
    for role in dict.fromkeys(worker.role for worker in spec.plan.workers):
        workers = spec.plan.with_role(role)
        endpoints = len({worker.endpoint for worker in workers})
        parts.append(f"{role} {endpoints} x DP{workers[0].dp}")
    return ", ".join(parts) + ("; with a router" if spec.plan.router else "")


def _nodes(facts: RunFacts) -> Iterator[str]:
    nodes = facts.allocation.get("nodes")
    if not isinstance(nodes, list) or facts.spec is None:
        return
    rows = []
    for node in (entry for entry in nodes if isinstance(entry, dict)):
        index = node.get("index")
        steps = [w.name for w in facts.spec.plan.workers if w.node == index]
        router = facts.spec.plan.router
        if router and router.node == index:
            steps.append(router.name)
        rows.append([f"  {node.get('name')}", str(node.get("address")), ", ".join(steps)])
    yield "nodes"
    yield from (printable(line) for line in columns(rows))


def _attempts(facts: RunFacts) -> Iterator[str]:
    """Drivers that worked on the run, when there were several."""
    rows = []
    for n in range(1, count(facts.run_dir) + 1):
        try:
            one = read_record(Attempt, facts.run_dir.attempt(n))
        except RecordError:
            continue
        end = f"{one.status.replace('_', ' ')}{f' in {one.phase}' if one.phase else ''}"
        rows.append([f"  {n}", one.job_id or "-", one.started_at[:19], end])
    if len(rows) > 1:
        yield "attempts    (logs of earlier ones: python -m jobs logs RUN --attempt N)"
        yield from (printable(line) for line in columns(rows))


def _phases(one: Seen) -> Iterator[str]:
    timeline, outcome = one.facts.timeline, one.standing.state.outcome
    try:
        until = seconds(outcome.ended_at) if outcome else _last_sign(one)
    except (ValueError, OverflowError):
        until = _last_sign(one)
    rows = [[f"  {name}", clock(at), duration(took)] for name, at, took in timeline.spans(until)]
    if rows:
        if not one.standing.over:
            rows[-1][2] += " so far"
        yield "phases"
        yield from columns(rows)


def _last_sign(one: Seen) -> float:
    """Now while it runs; when it is over, the last thing it said."""
    last = one.facts.timeline.last
    return last.at if last and one.standing.over else time.time()


def _workers(facts: RunFacts) -> Iterator[str]:
    if facts.spec is None:
        return
    names = [worker.name for worker in facts.spec.plan.workers]
    names += [facts.spec.plan.router.name] if facts.spec.plan.router else []
    rows = []
    for name in names:
        story = facts.timeline.steps.get(name)
        if story is None:
            continue
        reached = ", ".join(
            f"{phase} {after:.0f} s" for phase, after in story.reached.items() if phase != "ready"
        )
        ready = f"ready {story.ready_after_s:.1f} s" if story.ready_after_s is not None else ""
        now = ready or ("ready" if story.start_up == "ready" else story.start_up)
        rows.append([f"  {name}", story.node, story.died or now, reached])
    if rows:
        yield "workers     (start-up phases and when they were reached)"
        yield from columns(rows)


POINT_HEAD: tuple[str, ...] = ("  point", "done", "failed", "took", "total tok/s", "out tok/s")
POINT_HEAD += ("TTFT p50 ms", "TPOT p50 ms")


def _points(facts: RunFacts) -> Iterator[str]:
    if facts.spec is None or not facts.spec.plan.points:
        return
    yield f"points      {len(facts.points)} of {facts.planned} landed"
    rows: list[Sequence[str]] = [POINT_HEAD]
    rows += [point_row(facts.points[index]) for index in sorted(facts.points)]
    if len(rows) > 1:
        yield from columns(rows, right=range(1, len(POINT_HEAD)))
    if current := measuring(facts):
        yield f"  {measuring_text(current)}"


def point_row(point: BenchPoint) -> Sequence[str]:
    """One landed point; latencies in ms, tokens a second over the whole deployment."""
    took = point.duration_s or None
    total = (point.total_input_tokens + point.total_output_tokens) / took if took else None
    out = point.total_output_tokens / took if took else None
    return (
        f"  {printable(point.name)}",
        f"{point.completed}/{point.num_prompts}",
        str(point.failed),
        duration(point.duration_s),
        number(total),
        number(out),
        number(point.ttft_ms.median, 1),
        number(point.tpot_ms.median, 2),
    )


def _accuracy(facts: RunFacts) -> Iterator[str]:
    if facts.canary:
        yield f"canary      {facts.canary}"
    plan = facts.spec.plan.accuracy if facts.spec else None
    if plan is None:
        return
    yield f"accuracy    {printable(plan.dataset)}, {len(facts.repeats)} of {plan.repeats} repeats"
    for index in sorted(facts.repeats):
        one = facts.repeats[index]
        share = "-" if one.accuracy is None else f"{one.accuracy:.1%}"
        yield (
            f"  repeat {index + 1}: {share} ({one.correct} of {one.answered} answered), "
            f"{one.invalid} without a number, {one.cut} cut, "
            f"{one.transport_failures} transport failures"
        )


def _where(facts: RunFacts) -> Iterator[str]:
    store = facts.run_dir
    yield f"logs        {printable(str(store.logs))}/<step>.log, one per process"
    if facts.submission.log:
        yield f"driver      {printable(str(facts.submission.log))}"
    yield f"            python -m jobs logs {shlex.quote(facts.name)}"
    yield f"table       python -m analysis table {shlex.quote(printable(str(store.path)))}"
    overrides = facts.provenance.get("overrides")
    if isinstance(overrides, list):
        line = shlex.join(["python", "-m", "launcher", *map(str, overrides)])
        yield f"repeat      {printable(line)}"
    for warning in facts.warnings:
        yield f"warning     {warning}"
