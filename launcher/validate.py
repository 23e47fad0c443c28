"""What is wrong with a configuration, all of it at once, from the configuration alone."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from omegaconf import MISSING

from launcher.clients import CLIENTS, client_name
from launcher.containers import CONTAINERS
from launcher.engines import ENGINES
from launcher.engines.base import DERIVED
from launcher.errors import LauncherError, PlanError
from launcher.estimate import time_enough
from launcher.kinds import hints, stand_in
from launcher.known_bad import known_bad
from launcher.lengths import DEFINITIONS, length_range
from launcher.limits import OWNED_ROUTER, choice, numbers, owned_options
from launcher.open_values import open_texts
from launcher.options.layers import all_layers
from launcher.options.router import router_problems
from launcher.placement import Placement, place
from launcher.plan import ROLE_ORDER, build_plan
from launcher.port_rules import port_advice, port_problems
from launcher.privacy import secret_settings
from launcher.prompts import FORMS as PROMPT_FORMS
from launcher.prompts import SOURCES, prompt_problems
from launcher.schema import LaunchConfig
from launcher.segment import segment_of
from launcher.sizes import allocation, cpus, one_domain, sequences
from launcher.slurm_words import (
    drops_environment,
    node_lists,
    nothing_words,
    sbatch_names,
    shares_nodes,
    srun_options,
)
from launcher.time_limit import grace_for_teardown, time_limit
from launcher.written_paths import cache_folder, env_names, log_paths, mounted_paths
from launcher.yaml_words import BOOLEANS, env_booleans, env_booleans_elsewhere, sbatch_values

Rule = Callable[[LaunchConfig], Iterator[str]]

UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control, bidi and zero-width characters, lone surrogates, line and paragraph breaks."""

LEADING_KEY = re.compile(r"([a-z_]+(?:\.[\w-]+)*)")
"""Every problem begins with the key it speaks of."""
SHAPE_KEYS = ("topology", "cluster.gpus_per_node")
"""Without these nothing can be placed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Findings:
    """What the rules found."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def check_config(config: LaunchConfig) -> tuple[str, ...]:
    """Every warning; PlanError with every problem, which with check=strict the warnings are too."""
    findings = find(config)
    if findings.problems:
        raise PlanError(findings.problems)
    if findings.warnings and config.check == "strict":
        raise PlanError(
            f"{warning} (a warning; check=strict stops at it)" for warning in findings.warnings
        )
    return findings.warnings


def find(config: LaunchConfig) -> Findings:
    """All problems and warnings. A value of impossible form hides no other value's problem.

    Values that a form rule refuses are replaced by harmless ones before the rules that need a
    plan are run; where the topology itself cannot be, those are left out.
    """
    problems = [problem for rule in FORM_RULES for problem in rule(config)]
    refused = {match.group(1) for text in problems if (match := LEADING_KEY.match(text))}
    if any(key.startswith(SHAPE_KEYS) for key in refused):
        return Findings(tuple(dict.fromkeys(problems)), ())
    sound = with_stand_ins(config, refused) if refused else config
    problems += [problem for rule in PLAN_RULES for problem in _applied(rule, sound)]
    warnings = [warning for rule in ADVICE_RULES for warning in _applied(rule, sound, told=False)]
    return Findings(tuple(dict.fromkeys(problems)), tuple(dict.fromkeys(warnings)))


def _applied(rule: Rule, config: LaunchConfig, told: bool = True) -> Iterator[str]:
    """What a rule yields; one that needs a plan says so itself where there is none."""
    try:
        yield from rule(config)
    except LauncherError as error:
        if told:
            yield str(error)


def with_stand_ins(config: LaunchConfig, keys: set[str]) -> LaunchConfig:
    """A copy with harmless values at `keys`: the schema's defaults, else the smallest of a kind."""
    sound, known = copy.deepcopy(config), hints()
    for key in keys & set(known):
        *path, name = key.split(".")
        node: Any = sound
        for part in path:
            node = node[part] if isinstance(node, dict) else getattr(node, part)
        fresh = getattr(type(node)(), name, MISSING)
        setattr(node, name, stand_in(known[key]) if fresh == MISSING else fresh)
    return sound


def words(config: LaunchConfig) -> Iterator[str]:
    """Fields that take one of a few words."""
    yield from choice("cluster.executor", config.cluster.executor, ("slurm", "local"))
    yield from choice("cluster.container.kind", config.cluster.container.kind, CONTAINERS)
    yield from choice("engine.kind", config.engine.kind, ENGINES)
    yield from choice("engine.device", config.engine.device, ("cuda", "cpu", "none"))
    yield from choice("engine.client / workload.client", client_name(config), CLIENTS)
    yield from choice("workload.source", config.workload.source, SOURCES)
    yield from choice("workload.prompt_form", config.workload.prompt_form, PROMPT_FORMS)
    yield from choice("workload.range_definition", config.workload.range_definition, DEFINITIONS)
    yield from choice(
        "accuracy.dataset", config.accuracy.dataset, ("gsm8k", "word_problems", "none")
    )
    yield from choice("cluster.stage.verify", config.cluster.stage.verify, ("sizes", "content"))
    yield from choice("canary.form", config.canary.form, ("auto", "exact", "band"))
    yield from choice("check", config.check, ("warn", "strict"))
    yield from choice("on_bad_node", config.on_bad_node, ("stop", "exclude"))
    yield from choice(
        "cluster.segment_fallback", config.cluster.segment_fallback, ("none", "divisor")
    )
    yield from choice("sweep.order", config.sweep.order, ("cheapest", "as_given"))
    yield from choice("wait", config.wait.lower(), ("auto", "true", "false"))
    yield from choice("dry_run", config.dry_run.lower(), ("false", "true", "json"))


def roles(config: LaunchConfig) -> Iterator[str]:
    """Which roles there are, and their sizes."""
    names = set(config.topology.roles)
    for name in sorted(names - set(ROLE_ORDER)):
        yield f"topology.roles.{name}: no such role; allowed: {', '.join(ROLE_ORDER)}"
    if names & set(ROLE_ORDER) not in ({"prefill", "decode"}, {"aggregated"}):
        yield (
            f"topology.roles: has {', '.join(sorted(names)) or 'none'}; allowed: prefill and "
            "decode together, or aggregated alone"
        )
    for name, shape in config.topology.roles.items():
        for key in ("endpoints", "tp", "pp", "dp"):
            if getattr(shape, key) < 1:
                yield f"topology.roles.{name}.{key}={getattr(shape, key)}: allowed: 1 or more"
        yield from choice(
            f"topology.roles.{name}.load_balancing",
            shape.load_balancing,
            ("hybrid", "internal"),
        )


def load(config: LaunchConfig) -> Iterator[str]:
    """Concurrencies and the length ratio of the workload; limits.py bounds the numbers."""
    workload = config.workload
    if not workload.concurrency:
        yield "workload.concurrency=[]: allowed: at least one number of concurrent requests"
    for value in workload.concurrency:
        if value < 1:
            yield f"workload.concurrency has {value}: allowed: 1 or more"
    repeated = sorted({v for v in workload.concurrency if workload.concurrency.count(v) > 1})
    if repeated:
        yield (
            f"workload.concurrency repeats {repeated}: give each number once; workload.repeats "
            "measures every point several times"
        )
    try:
        length_range(workload.range_definition, workload.range_ratio, 1)
    except LauncherError as error:
        yield str(error)


def site(config: LaunchConfig) -> Iterator[str]:
    """The cluster's own numbers and words."""
    cluster = config.cluster
    texts = {
        f"cluster.{key}": getattr(cluster, key)
        for key in ("account", "partition", "qos", "reservation", "exclude", "dependency")
    }
    texts |= {"name": config.name, "model.served_name": config.model.served_name}
    texts |= {"model.path": config.model.path, "cluster.results_dir": cluster.results_dir}
    texts |= {"cluster.container.image": cluster.container.image}
    for key, value in texts.items():
        if value == "":
            yield f"{key} is empty; give it a text, or leave it out"
        elif value in BOOLEANS:
            yield (
                f"{key}={value}: meant as text? put it in quotes (YAML reads on, off, "
                "yes and no as booleans)"
            )
    if cluster.stage.dir is not None and not cluster.stage.dir.startswith("/"):
        yield f"cluster.stage.dir={cluster.stage.dir}: allowed: a path from /, as every node has it"
    if cluster.container.kind != "none" and not cluster.container.image:
        yield (
            f"cluster.container.image is not set, with cluster.container.kind="
            f"{cluster.container.kind}: name the image, or use kind=none and engine.env_dir"
        )


def safe_text(config: LaunchConfig) -> Iterator[str]:
    """No control characters: a line break in a value could end a line of the batch script."""
    for where, value in _strings(config, ""):
        if value.isprintable():
            continue
        if any(unicodedata.category(character) in UNPRINTABLE for character in value):
            yield f"{where}={value!r}: control characters are not allowed; write one plain line"


def _strings(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield where, str(key)
            yield from _strings(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _strings(item, f"{where}[{index}]")
    elif dataclasses.is_dataclass(value):
        for key, item in vars(value).items():
            yield from _strings(item, f"{where}.{key}" if where else key)


def environment(config: LaunchConfig) -> Iterator[str]:
    """Variables that each process gets its own value of are refused."""
    owned = ENGINES[config.engine.kind].owned_env
    layers = {"cluster.env": config.cluster.env, "engine.env": config.engine.env}
    layers |= {"model.env": config.model.env, "flags.env": config.flags.env}
    for where, env in layers.items():
        for name in sorted(set(env) & owned):
            yield f"{where}.{name}={env[name]!r}: the launcher sets it for every process; remove it"


def engine_rules(config: LaunchConfig) -> Iterator[str]:
    """What the engine itself knows to be wrong."""
    yield from ENGINES[config.engine.kind].problems(config)


def segment_has_effect(config: LaunchConfig) -> Iterator[str]:
    """A segment as large as the job or larger asks the scheduler for nothing."""
    if not (config.cluster.segment.isascii() and config.cluster.segment.isdigit()):
        return
    nodes = place(build_plan(config)).nodes
    if int(config.cluster.segment) > nodes:
        gpus = place(build_plan(config)).allocated_gpus
        counted = (
            " (it looks like the number of GPUs)" if gpus == int(config.cluster.segment) else ""
        )
        yield (
            f"cluster.segment={config.cluster.segment}: larger than the job's {nodes} nodes, so it "
            f"holds nothing together{counted}; use auto ({nodes}), off, or a divisor of {nodes}"
        )


def second_choices_have_effect(config: LaunchConfig) -> Iterator[str]:
    """What to do instead of failing, asked for where it cannot happen."""
    if config.on_bad_node == "exclude" and config.cluster.executor == "local":
        yield "on_bad_node=exclude: has no effect with cluster.executor=local: one machine is all"
    if config.cluster.segment_fallback != "none" and config.cluster.segment == "off":
        yield (
            f"cluster.segment_fallback={config.cluster.segment_fallback}: has no effect with "
            "cluster.segment=off; use cluster.segment=auto"
        )


def engine_advice(config: LaunchConfig) -> Iterator[str]:
    """What the engine runs, but hardly as meant."""
    yield from ENGINES[config.engine.kind].advice(config)


def derived_flags(config: LaunchConfig) -> Iterator[str]:
    """Flags that the launcher works out itself are refused, with the key that decides them."""
    engine = ENGINES[config.engine.kind]
    for where, flags in all_layers(config).items():
        for name in flags:
            if name.replace("_", "-") in engine.owned_flags:
                yield f"{where}.{name}={flags[name]!r}: {DERIVED}"


def router_flags(config: LaunchConfig) -> Iterator[str]:
    """Flags that vllm-router itself would refuse."""
    yield from router_problems(config.router.flags, OWNED_ROUTER)


def arithmetic(config: LaunchConfig) -> Iterator[str]:
    """GPUs, nodes, segment and ports of the plan."""
    try:
        plan = build_plan(config)
        placement = place(plan)
    except LauncherError as error:
        yield str(error)
        return
    try:
        segment_of(plan, placement)
    except LauncherError as error:
        yield str(error)
    yield from lonely_ranks(placement)
    yield from port_problems(plan, placement)


def crowded_ports(config: LaunchConfig) -> Iterator[str]:
    """Ports that may be taken by then."""
    plan = build_plan(config)
    yield from port_advice(plan, place(plan))


def lonely_ranks(placement: Placement) -> Iterator[str]:
    """Hybrid load balancing needs two ranks a node: with one, vLLM 0.32 dies while starting."""
    roles = {
        process.endpoint.role: process
        for process in placement.processes
        if process.endpoint_nodes > 1
        and process.endpoint.load_balancing == "hybrid"
        and not process.spans_rank
        and len(process.dp_ranks) == 1
    }
    for role, process in roles.items():
        yield (
            f"topology.roles.{role}.load_balancing=hybrid: {process.name} holds one rank of its "
            "endpoint's ranks on its node, and vLLM starts hybrid load balancing with two or more "
            "only; use internal, or a dp that fills nodes evenly"
        )


def known_bad_errors(config: LaunchConfig) -> Iterator[str]:
    """Combinations that vLLM refuses, or computes something wrong with."""
    if config.engine.kind == "vllm":
        with contextlib.suppress(LauncherError):  # broken JSON, which engine_rules tells
            yield from known_bad(config, "error")


def known_bad_warnings(config: LaunchConfig) -> Iterator[str]:
    """Combinations that run, but hardly as meant."""
    if config.engine.kind == "vllm":
        yield from known_bad(config, "warning")


FORM_RULES: tuple[Rule, ...] = (
    *(words, numbers, roles, load, site, time_limit, owned_options, env_booleans, sbatch_values),
    *(safe_text, srun_options, sbatch_names, node_lists, nothing_words),
    *(cache_folder, log_paths, mounted_paths, env_names),
    prompt_problems,
    open_texts,
)
PLAN_RULES: tuple[Rule, ...] = (
    allocation,
    environment,
    prompt_problems,
    secret_settings,
    engine_rules,
    derived_flags,
    router_flags,
    arithmetic,
    known_bad_errors,
)
ADVICE_RULES: tuple[Rule, ...] = (
    segment_has_effect,
    second_choices_have_effect,
    engine_advice,
    known_bad_warnings,
    time_enough,
    grace_for_teardown,
    one_domain,
    cpus,
    sequences,
    crowded_ports,
    env_booleans_elsewhere,
    shares_nodes,
    drops_environment,
)
