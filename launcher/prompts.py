"""The step that makes all points' prompts while the workers load, and the rules about prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from launcher.document import plain
from launcher.engines import ENGINES
from launcher.lengths import length_range
from launcher.plan import LaunchPlan, Point, client_of
from launcher.schema import LaunchConfig
from launcher.steps import Step, Surroundings

SOURCES = ("random", "shared_prefix", "multi_turn", "trace")
FORMS = ("auto", "text", "ids")
CACHE = ".prompts"
"""Folder in cluster.results_dir where prompts are kept for the next run."""
NATIVE_ONLY = ("multi_turn", "trace")
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def prompts_path(point: Point) -> str:
    """A point's prompt file, relative to the run directory."""
    return f"points/raw/{point.index}-{point.name}.prompts"


def engine_python(config: LaunchConfig) -> str:
    """The Python that has the engine's tokenizer, in the container where there is one."""
    if config.cluster.container.kind == "none" and config.engine.env_dir:
        return f"{config.engine.env_dir}/bin/python"
    return "python3"


def form_of(point: Point, config: LaunchConfig) -> str:
    """text or ids: the rehearsal engine has no tokenizer, so it is sent ids."""
    if point.prompts.form != "auto":
        return point.prompts.form
    return "ids" if ENGINES[config.engine.kind].rehearsal else "text"


def prompts_step(plan: LaunchPlan, around: Surroundings) -> Step:
    """One process for all points, so that the tokenizer is loaded once: where text is made, in the
    engine's Python."""
    config = plan.config
    text = any(form_of(point, config) == "text" for point in plan.points)
    argv = (
        engine_python(config) if text else around.python,
        *("-m", "jobs.prompts", "run", "{run_dir}"),
    )
    env = dict(around.env) | (OFFLINE if text else {})
    return Step(name="prompts", node=0, argv=argv, env=env, contained=text)


def prompts_order(plan: LaunchPlan) -> dict[str, Any]:
    """What that step reads from run.json: every point's file and what goes into it."""
    config = plan.config
    return {
        "tokenizer": config.model.tokenizer or config.model.path,
        "trust_remote_code": bool(config.model.flags.get("trust-remote-code")),
        "tokenizer_mode": tokenizer_mode(plan),
        "vocab_size": config.model.vocab_size,
        "cache": f"{config.cluster.results_dir}/{CACHE}",
        "files": [_file(point, config) for point in plan.points],
    }


def tokenizer_mode(plan: LaunchPlan) -> str:
    """The servers' --tokenizer-mode: those that read prompts count them, and come first."""
    told = (endpoint.flags.get("tokenizer-mode") for endpoint in plan.endpoints)
    return str(next(filter(None, told), "auto"))


def prompts_mounts(config: LaunchConfig) -> tuple[str, ...]:
    """Further folders that the step sees in its container: the cache, the tokenizer, traces."""
    if config.cluster.container.kind == "none":
        return ()
    folders = [config.cluster.results_dir]
    folders += [path for path in (config.model.tokenizer, config.workload.trace.path) if path]
    return tuple(f"{folder}:{folder}" for folder in folders)


def _file(point: Point, config: LaunchConfig) -> dict[str, Any]:
    plan = point.prompts
    chosen = plain(plan)
    for name in ("form", "template", "verify"):
        del chosen[name]
    sa_bench = plan.template and point.range_definition == "inferencemax"
    context = "template" if plan.template else "plain"
    return {
        "out": prompts_path(point),
        "form": form_of(point, config),
        "context": "messages" if plan.source == "multi_turn" else context,
        "verify": plan.verify,
        "spec": {
            **chosen,
            "count": point.num_prompts,
            "warmup": point.warmup_requests,
            "input_range": list(point.input_range),
            "output_range": list(point.output_range),
            "seed": point.seed,
            "template_ratio": point.range_ratio if sa_bench else None,
        },
    }


def prompt_problems(config: LaunchConfig) -> Iterator[str]:
    """What cannot be made, or not be sent by the chosen client."""
    load, client = config.workload, client_of(config)
    ids = load.prompt_form == "ids" or (
        load.prompt_form == "auto" and ENGINES[config.engine.kind].rehearsal
    )
    if load.prompt_form == "text" and ENGINES[config.engine.kind].rehearsal:
        yield (
            "workload.prompt_form=text: the rehearsal engine has no tokenizer; use auto, which "
            "sends it token ids"
        )
    if load.source in NATIVE_ONLY and client != "native":
        yield (
            f"workload.source={load.source}: client {client} cannot send it; use "
            "workload.client=native"
        )
    if ids and client != "native":
        yield (
            f"workload.prompt_form={load.prompt_form}: these prompts are token ids, and client "
            f"{client} sends text; use workload.client=native"
        )
    if load.source == "multi_turn" and ids:
        yield (
            "workload.source=multi_turn: sessions are chat messages, which are text, and this run "
            "sends token ids; use an engine with a tokenizer and workload.prompt_form=text"
        )
    if load.chat_template and ids:
        yield (
            "workload.chat_template=true: a template is text, and this run sends token ids; use "
            "an engine with a tokenizer and workload.prompt_form=text, or leave it out"
        )
    if not (load.verify_prompts in ("auto", "all") or load.verify_prompts.isdecimal()):
        yield f"workload.verify_prompts={load.verify_prompts!r}: allowed: auto, all, or a number"
    if load.source == "trace" and not load.trace.path:
        yield "workload.source=trace: workload.trace.path is not set; name the trace's file"
    if load.source == "shared_prefix":
        low = length_range(load.range_definition, load.range_ratio, load.isl)[0]
        if load.shared_prefix.tokens >= low:
            yield (
                f"workload.shared_prefix.tokens={load.shared_prefix.tokens}: must be less than the "
                f"shortest prompt, {low} tokens (workload.isl, range_ratio)"
            )
