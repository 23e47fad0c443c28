"""Whether a value, as the launcher writes it on a command line, is one an option takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.options.table import Spec, near

HUMAN = re.compile(r"[+-]?\d+|\d+(\.\d+)?[kmgt]|\d+[KMGT]")
SUFFIXED = re.compile(r'("(?:[^"\\]|\\.)*")|\b(\d+(?:\.\d+)?)([kKmMgGtT])\b')


def refusal(spec: Spec, value: Any) -> str:
    """Why the program would refuse the value, with what is allowed; "" where it takes it."""
    kind = spec["kind"]
    if kind in ("bool", "switch"):
        return _switch(kind, value)
    if isinstance(value, bool):
        return _no_switch(spec, value)
    if isinstance(value, (list, tuple)):
        return _several(spec, value)
    return _one(spec, value)


def allowed(spec: Spec) -> str:
    """What an option takes, in words."""
    if "choices" in spec:
        return ", ".join(str(item) for item in spec["choices"])
    words = {
        "bool": "true or false",
        "switch": "true",
        "int": "a whole number",
        "float": "a number",
        "str": "text",
        "json": "a mapping (JSON)",
        "json_or_str": "a mapping (JSON) or text",
        "human_int": "a whole number, or one like 8k, 2M",
        "human_int_or_auto": "a whole number, one like 8k, 2M, or auto",
    }
    several = " (one or more)" if spec.get("nargs") in ("+", "*") else ""
    return words[spec["kind"]] + several


def _switch(kind: str, value: Any) -> str:
    if kind == "switch":
        ends = "it has no --no- form: leave it out, or null to take an earlier layer's away"
        return "" if value is True else f"allowed: true; {ends}"
    if isinstance(value, bool):
        return ""
    quoted = " without quotes" if isinstance(value, str) else ""
    return f"allowed: true or false{quoted}"


def _no_switch(spec: Spec, value: bool) -> str:
    if value and spec.get("nargs") == "?":
        return ""
    text = f"allowed: {allowed(spec)}; it is no switch, so true and false mean nothing"
    quoted = {str(value).lower(), "on" if value else "off", "yes" if value else "no"}
    if "choices" not in spec or quoted & {str(item).lower() for item in spec["choices"]}:
        text += " (meant as text? put it in quotes)"
    return text


def _several(spec: Spec, values: list[Any] | tuple[Any, ...]) -> str:
    if spec.get("nargs") not in ("+", "*"):
        if spec["kind"] == "json":
            return f'allowed: {allowed(spec)}; write a JSON list as text, \'["a","b"]\''
        return f"allowed: {allowed(spec)}, one value and no list"
    if not values and spec["nargs"] == "+":
        return "allowed: one value or more; the list is empty"
    return next(filter(None, (_one(spec, item) for item in values)), "")


def _one(spec: Spec, value: Any) -> str:
    if isinstance(value, Mapping):
        fits = spec["kind"] in ("json", "json_or_str")
        return "" if fits else f"allowed: {allowed(spec)}; a mapping would become JSON text"
    text = plain_text(value)
    if spec.get("none") and text in ("", "None"):
        return ""
    if text.startswith("-") and " " not in text and not re.fullmatch(r"-\d+|-\d*\.\d+", text):
        return f"allowed: {allowed(spec)}; a value that starts with - is read as a flag"
    if "choices" in spec and text not in [str(item) for item in spec["choices"]]:
        return f"allowed: {allowed(spec)}{_hint(text, spec)}"
    if spec["kind"] == "str" and "known" in spec and text not in spec["known"]:
        close = near(text.lower(), {str(item).lower() for item in spec["known"]}, 0.65)
        if close and close != text.lower() and text.lower() != "auto":
            return f"not one of {', '.join(spec['known'])}; did you mean {close}?"
    suffixed = spec["kind"] == "json" and "config" in spec
    fits = _reads(json_value)(text) if suffixed else _KINDS[spec["kind"]](text)
    return "" if fits else f"allowed: {allowed(spec)}"


def _hint(text: str, spec: Spec) -> str:
    close = near(text.lower(), [str(item) for item in spec["choices"]], 0.5)
    if close:
        return f"; did you mean {close}?"
    if text.lower() in ("auto", "none", "default") and "default" not in spec:
        return "; leave the flag out and vLLM chooses"
    return ""


def plain_text(value: Any) -> str:
    """A value as the command line carries it: whole floats without their point."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)


def _reads(reader: Callable[[str], Any]) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            reader(text)
        except ValueError:
            return False
        return True

    return fits


def json_value(text: str) -> Any:
    """The value of JSON text as vLLM reads it: bare numbers may end in k, M, g, ...; or ValueError.

    (vllm/engine/arg_utils.py, _expand_json_human_readable_numbers.)
    """
    return json.loads(SUFFIXED.sub(lambda match: match.group(1) or "0", text))


def _json_or_text(text: str) -> Any:
    return json.loads(text) if re.match(r"(?s)^\s*{.*}\s*$", text) else text


_KINDS: dict[str, Callable[[str], bool]] = {
    "int": _reads(int),
    "float": _reads(float),
    "str": lambda _: True,
    "json": _reads(json.loads),
    "json_or_str": _reads(_json_or_text),
    "human_int": lambda text: HUMAN.fullmatch(text.strip()) is not None,
    "human_int_or_auto": lambda text: (
        text.strip().lower() == "auto" or HUMAN.fullmatch(text.strip()) is not None
    ),
}


def field_refusals(
    fields: Mapping[str, Spec], value: Mapping[str, Any], where: str
) -> Iterator[tuple[str, str]]:
    """(key, why) of every entry of a mapping that a config class would refuse."""
    for key, item in value.items():
        spec = fields.get(key)
        if spec is None:
            close = near(key, fields)
            hint = f"; did you mean {close}?" if close else f"; keys: {', '.join(sorted(fields))}"
            yield key, f"{where} has no such key{hint}"
        elif not _fits(spec, item):
            yield key, f"allowed: {_field_allowed(spec)}{_field_hint(spec, item)}"


def _fits(spec: Spec, value: Any) -> bool:
    """Whether a config field takes a JSON value; text for numbers counts, as pydantic reads it."""
    kinds = set(spec["kinds"])
    if "any" in kinds or (value is None and "none" in kinds):
        return True
    if "choices" in spec and not isinstance(value, (dict, list)) and value in spec["choices"]:
        return True
    if isinstance(value, bool):
        return bool({"bool", "int", "float"} & kinds)
    if isinstance(value, (int, float)):
        whole = float(value).is_integer()
        return (
            "float" in kinds or (whole and "int" in kinds) or ("bool" in kinds and value in (0, 1))
        )
    if isinstance(value, str):
        return "str" in kinds or _text_fits(kinds, value)
    return ("json" if isinstance(value, Mapping) else "list") in kinds


def _text_fits(kinds: set[str], text: str) -> bool:
    words = ("true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "0", "1")
    return (
        ("bool" in kinds and text.lower() in words)
        or ("int" in kinds and _KINDS["int"](text))
        or ("float" in kinds and _KINDS["float"](text))
    )


def _field_allowed(spec: Spec) -> str:
    words = {"json": "a mapping", "int": "a whole number", "float": "a number", "str": "text"}
    words |= {"bool": "true or false", "list": "a list", "none": "null"}
    told = [str(item) for item in spec.get("choices", ())]
    return ", ".join(told + [words[kind] for kind in spec["kinds"] if kind in words])


def _field_hint(spec: Spec, value: Any) -> str:
    close = near(str(value), [str(item) for item in spec.get("choices", ())], 0.5)
    return f"; did you mean {close}?" if close else ""
