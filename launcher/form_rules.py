"""Values that cannot be meant, each by itself: words, roles, lists, texts."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.clients import CLIENTS, client_name
from launcher.containers import CONTAINERS
from launcher.engines import ENGINES
from launcher.errors import LauncherError
from launcher.lengths import DEFINITIONS, length_range
from launcher.limits import choice
from launcher.plan import ROLE_ORDER
from launcher.prompts import FORMS as PROMPT_FORMS
from launcher.prompts import SOURCES
from launcher.schema import LaunchConfig
from launcher.texts import texts_in
from launcher.yaml_words import BOOLEANS

UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control, bidi and zero-width characters, lone surrogates, line and paragraph breaks."""


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
    if all(text.isprintable() for text in texts_in(config)):
        return
    for where, value in _strings(config, ""):
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
