"""What the model's folder says about the model, where the launcher can see that folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launcher.model_config import differences, facts_of, language_part
from launcher.schema import LaunchConfig


def fill_facts(config: LaunchConfig) -> None:
    """model.facts that are null, from config.json in model.path; nothing where it is not seen."""
    for name, value in _facts(config).items():
        if getattr(config.model.facts, name) is None:
            setattr(config.model.facts, name, value)


def fact_problems(config: LaunchConfig) -> Iterator[str]:
    """Facts of conf/model that config.json contradicts, and a config.json that cannot be read."""
    path = Path(config.model.path, "config.json")
    if not config.cluster.login_sees_models or not path.is_file():
        return
    stated = _json(path)
    if not stated:
        yield f"model.path={config.model.path}: its config.json is not a JSON object"
        return
    yield from differences(config.model, _facts(config))
    vocabulary = language_part(stated).get("vocab_size")
    if vocabulary is not None and vocabulary != config.model.vocab_size:
        yield (
            f"model.vocab_size={config.model.vocab_size}: {path} says {vocabulary}; correct one "
            "of them"
        )


def _facts(config: LaunchConfig) -> dict[str, Any]:
    folder = Path(config.model.path)
    if not config.cluster.login_sees_models:
        return {}
    stated = _json(folder / "config.json")
    if not stated:
        return {}
    quantisation = stated.get("quantization_config") or _json(folder / "hf_quant_config.json")
    return facts_of(stated, quantisation if isinstance(quantisation, dict) else {})


def _json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is none."""
    try:
        read = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}
