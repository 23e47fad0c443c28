"""What the engine and the router would refuse, or run but hardly as meant."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from launcher.engines import ENGINES
from launcher.engines.base import DERIVED
from launcher.errors import LauncherError
from launcher.known_bad import known_bad
from launcher.limits import OWNED_ROUTER
from launcher.options.layers import all_layers
from launcher.options.router import router_problems
from launcher.schema import LaunchConfig


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


def known_bad_errors(config: LaunchConfig) -> Iterator[str]:
    """Combinations that vLLM refuses, or computes something wrong with."""
    if config.engine.kind == "vllm":
        with contextlib.suppress(LauncherError):  # broken JSON, which engine_rules tells
            yield from known_bad(config, "error")


def known_bad_warnings(config: LaunchConfig) -> Iterator[str]:
    """Combinations that run, but hardly as meant."""
    if config.engine.kind == "vllm":
        yield from known_bad(config, "warning")
