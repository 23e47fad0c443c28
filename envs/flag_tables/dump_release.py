"""One vLLM release's own answers, as JSON: its options, config fields, variables and connectors.

    PYTHONPATH=SOURCE PYTHON dump_release.py OUT.json

Runs inside an interpreter that can import that release (PYTHONPATH in front of an environment with
its dependencies). Nothing is read by pattern where the release can be asked: options come from the
parser that `vllm serve` builds, fields from its dataclasses, variables from calling the release's
own functions. The platform is a stand-in that calls itself CUDA, so that no GPU and no compiled
extension is needed and every machine gives the same answer.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import json
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NO_NAME = re.compile(r"^--no-")
ELSEWHERE = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\()\s*["'](VLLM_[A-Z0-9_]+)["']""")
GPU_MEMORY = 184 << 30
"""Bytes of a GB200 GPU: vLLM chooses some defaults by it."""
FIELD_KINDS = {"dict": "json", "set": "list", "tuple": "list"}
PROBES = ("word", "7", "1.5", "1", "0", "true", "True", "false", "yes", "on", "y", "t")


def stand_in() -> None:
    """A platform without a device, and no plug-ins: what the parser is built for."""
    os.environ["VLLM_PLUGINS"] = ""
    import vllm.platforms
    from vllm.platforms.interface import PlatformEnum, UnspecifiedPlatform

    class Cuda(UnspecifiedPlatform):
        _enum = PlatformEnum.CUDA
        device_name = "cuda"
        device_type = "cuda"

        @classmethod
        def get_device_name(cls, *_: object) -> str:
            return "NVIDIA GB200"

        @classmethod
        def get_device_total_memory(cls, *_: object) -> int:
            return GPU_MEMORY

    vllm.platforms._current_platform = Cuda()


def serve_parser() -> argparse.ArgumentParser:
    """The parser of `vllm serve`, wherever this release keeps its maker."""
    import vllm.entrypoints.cli.serve as serve
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return serve.make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))


def options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """(name, what it takes, config class or None) of every option."""
    marked = getattr(parser, "_deprecated", set())
    spelt: dict[int, list[str]] = {}
    for text, action in parser._option_string_actions.items():
        spelt.setdefault(id(action), []).append(text)
    for action in parser._actions:
        inverse, names = [], []
        for text in spelt.get(id(action), ()):
            if text in getattr(action, "negative_option_strings", ()) or _is_no(text, action):
                inverse += [] if NO_NAME.match(text) else [text[2:].replace("_", "-")]
            else:
                names.append(text)
        longs = [name[2:].replace("_", "-") for name in names if name.startswith("--")]
        if not longs or isinstance(action, argparse._HelpAction):
            continue
        spec, config = taken(action)
        shorts = [name for name in names if not name.startswith("--")]
        told = {"short": shorts, "also": longs[1:], "inverse": inverse}
        spec |= {key: value for key, value in told.items() if value}
        said = re.search(r"\bdeprecated\b", action.help or "", re.IGNORECASE)
        if action in marked or said or "eprecated" in type(action).__name__:
            spec["deprecated"] = " ".join((action.help or "").split())[:200] if said else True
        default = plain(action.default)
        if default is not None:
            spec["default"] = default
        yield longs[0], spec, config


def _is_no(name: str, action: argparse.Action) -> bool:
    return isinstance(action, argparse.BooleanOptionalAction) and bool(NO_NAME.match(name))


def taken(action: argparse.Action) -> tuple[dict[str, Any], Any]:
    """What an option takes: kind, count, choices, whether None; and its config class."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return {"kind": "bool"}, None
    if action.nargs == 0:
        return {"kind": "switch"}, None
    spec, config = kind_of(action.type)
    if action.nargs is not None:
        spec["nargs"] = action.nargs
    if action.choices is not None:
        spec["choices"] = [plain(item) for item in action.choices if item is not None]
    elif known := announced(action.metavar):
        spec["known"] = known
    return spec, config


def announced(metavar: Any) -> list[str]:
    """Values that the help names though the parser takes any text: a list, or {a,b} in text."""
    if isinstance(metavar, (list, tuple)):
        return [str(item) for item in metavar if item is not None]
    braces = re.search(r"\{([^{}]+)\}", metavar or "")
    return [item.strip() for item in braces.group(1).split(",")] if braces else []


def enumerated() -> dict[str, list[str]]:
    """{option: names} of engine arguments whose text is looked up in an Enum."""
    from vllm.engine.arg_utils import AsyncEngineArgs, get_type_hints

    found: dict[str, list[str]] = {}
    for field in dataclasses.fields(AsyncEngineArgs):
        for hint in get_type_hints(field.type):
            named = isinstance(hint, type) and issubclass(hint, enum.Enum)
            if named and not issubclass(hint, enum.IntEnum):
                found[field.name.replace("_", "-")] = sorted(hint.__members__)
    return found


def kind_of(kind: Any) -> tuple[dict[str, Any], Any]:
    """The kind of a `type=` callable, looked up through vLLM's own wrappers."""
    if kind is None:
        return {"kind": "str"}, None
    name = getattr(kind, "__name__", repr(kind))
    if name in ("_optional_type", "_parse_type"):
        spec, config = kind_of(kind.__closure__[0].cell_contents)
        return (spec | {"none": True} if name == "_optional_type" else spec), config
    if name == "parse_dataclass":
        return {"kind": "json"}, kind.__defaults__[0]
    known = {
        "int": "int",
        "float": "float",
        "str": "str",
        "loads": "json",
        "human_readable_int": "human_int",
        "human_readable_int_or_auto": "human_int_or_auto",
        "union_dict_and_str": "json_or_str",
    }
    if name not in known:
        sys.stderr.write(f"kind of {name} is not known: taken as text\n")
    return {"kind": known.get(name, "str")}, None


def plain(value: Any) -> Any:
    """A default as JSON, None for what has no short form (objects, factories, paths)."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return None if value.startswith(("/", "==")) else str(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [plain(item) for item in value]
        return sorted(items, key=str) if isinstance(value, (set, frozenset)) else items
    return None


def config_fields(start: list[Any]) -> dict[str, dict[str, Any]]:
    """Fields of the config classes reachable from `start`: {class: {field: what it takes}}."""
    from vllm.engine.arg_utils import get_type_hints

    found: dict[str, dict[str, Any]] = {}
    queue = list(start)
    while queue:
        config = queue.pop()
        if config.__name__ in found:
            continue
        fields = found[config.__name__] = {}
        for field in dataclasses.fields(config):
            info = field.default
            if field.init is False or getattr(info, "init", None) is False:
                continue
            spec, inner = field_spec(get_type_hints(field.type))
            default = plain(getattr(info, "default", info))
            if default is not None:
                spec["default"] = default
            fields[field.name] = spec
            queue += [inner] if inner is not None else []
    return found


def field_spec(hints: set[Any]) -> tuple[dict[str, Any], Any]:
    """What a config field takes, of the members of its annotation's union."""
    kinds: set[str] = set()
    choices: list[Any] = []
    inner = None
    for hint in hints:
        origin = typing.get_origin(hint) or hint
        if dataclasses.is_dataclass(hint):
            inner = hint
            kinds.add("json")
        elif origin is typing.Literal:
            choices += typing.get_args(hint)
        elif origin in (bool, int, float, str, dict, list, set, tuple):
            kinds.add(FIELD_KINDS.get(origin.__name__, origin.__name__))
        elif hint is type(None):
            kinds.add("none")
        else:
            kinds.add("any")
    spec: dict[str, Any] = {"kinds": sorted(kinds)}
    if choices and "str" not in kinds:
        flat = [typing.get_args(item) or (item,) for item in choices]
        spec["choices"] = sorted({item for group in flat for item in group}, key=str)
    if inner is not None:
        spec["config"] = inner.__name__
    return spec, inner


def variables() -> dict[str, dict[str, Any]]:
    """Every variable of vllm/envs.py: default, and how it reads text, found by calling it."""
    import vllm.envs as envs

    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("VLLM_")}
    try:
        return {name: variable(name, getter) for name, getter in envs.environment_variables.items()}
    finally:
        os.environ.update(kept)


def variable(name: str, getter: Callable[[], Any]) -> dict[str, Any]:
    """How one variable reads text: choices, int, float, which words are true, or any text."""
    answers = {probe: called(name, getter, probe) for probe in PROBES}
    spec: dict[str, Any] = {}
    closure = dict(
        zip(
            getattr(getter, "__code__", _blank).co_freevars,
            [cell.cell_contents for cell in getattr(getter, "__closure__", None) or ()],
            strict=False,
        )
    )
    if "choices" in closure:
        choices = closure["choices"]
        spec["choices"] = list(choices() if callable(choices) else choices)
        spec["kind"] = "list" if "list" in getter.__name__ or "set" in getter.__name__ else "str"
        if not closure.get("case_sensitive", True):
            spec["any_case"] = True
    else:
        spec |= read_as(answers)
    default = plain(called(name, getter, None))
    if default is not None and default == plain(called(name, getter, None)):  # not a random one
        spec["default"] = default
    return spec


_blank = (lambda: None).__code__


def read_as(answers: dict[str, Any]) -> dict[str, Any]:
    """The kind of a variable from what it made of the probes."""
    fine = {probe: answer for probe, answer in answers.items() if not isinstance(answer, Exception)}
    if fine and all(isinstance(answer, bool) for answer in fine.values()):
        if "word" not in fine:
            return {"kind": "bool_int"}
        return {"kind": "bool_word", "true": [probe for probe, answer in fine.items() if answer]}
    if "word" in fine or "7" not in fine:
        return {"kind": "str"}
    return {"kind": "float" if "1.5" in fine else "int"}


def called(name: str, getter: Callable[[], Any], value: str | None) -> Any:
    """What the release makes of a variable's value: its result, or the exception it raised."""
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value
    try:
        return getter()
    except Exception as error:  # noqa: BLE001 - the release's own refusal is the answer
        return error
    finally:
        os.environ.pop(name, None)


def names_elsewhere(root: Path) -> list[str]:
    """VLLM_ names that the source reads straight from the environment, besides envs.py."""
    found: set[str] = set()
    for path in root.rglob("*.py"):
        found.update(ELSEWHERE.findall(path.read_text(encoding="utf-8", errors="replace")))
    return sorted(found)


def nixl_keys(root: Path) -> dict[str, dict[str, Any]]:
    """Keys of kv_connector_extra_config that the NIXL connector asks for, with their defaults."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = ast.unparse(node.func.value)
            asks = node.func.attr == "get_from_extra_config" or (
                node.func.attr == "get" and owner.endswith("extra_config")
            )
            if asks and node.args and isinstance(node.args[0], ast.Constant):
                key = str(node.args[0].value)
                spec = found.setdefault(key, {})
                if len(node.args) > 1 and "default" not in spec:
                    default = _literal(node.args[1])
                    spec |= {} if default is None else {"default": default}
    return found


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def resolved() -> dict[str, Any]:
    """Defaults that `vllm serve` works out on a GB200 GPU where the option itself has none."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    tokens, seqs = EngineArgs.get_batch_defaults(world_size=1)
    serving = UsageContext.OPENAI_API_SERVER
    return {"max-num-batched-tokens": tokens[serving], "max-num-seqs": seqs[serving]}


def dump() -> dict[str, Any]:
    """All that one release says of itself."""
    stand_in()
    flags: dict[str, Any] = {}
    configs: list[Any] = []
    for name, spec, config in options(serve_parser()):
        flags[name] = spec
        if config is not None:
            spec["config"] = config.__name__
            configs.append(config)
    import vllm
    from vllm.config import KVTransferConfig, SpeculativeConfig
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    for name, members in enumerated().items():
        if name in flags and flags[name]["kind"] == "str" and "choices" not in flags[name]:
            flags[name].setdefault("known", members)
    flags["speculative-config"].setdefault("config", SpeculativeConfig.__name__)
    root = Path(vllm.__file__).parent
    connectors = root / "distributed" / "kv_transfer" / "kv_connector" / "v1"
    nixl = connectors / "nixl"
    declared = variables()
    return {
        "flags": flags,
        "resolved": resolved(),
        "configs": config_fields([*configs, SpeculativeConfig, KVTransferConfig]),
        "env": declared,
        "env_elsewhere": [name for name in names_elsewhere(root) if name not in declared],
        "connectors": sorted(KVConnectorFactory._registry),
        "nixl": nixl_keys(nixl if nixl.is_dir() else connectors),
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(dump(), indent=1, sort_keys=True) + "\n")
