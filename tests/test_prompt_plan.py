"""From the configuration to prompt files: what a run orders, and what is refused before it."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any

import pytest

from jobs.bench import asked_ranges
from jobs.prompts.cache import PromptCache
from jobs.prompts.making import Maker
from jobs.prompts.orders import make_files, read_order
from jobs.prompts.reader import PromptFile
from jobs.prompts.spec import Spec
from jobs.records import from_json
from jobs.run_spec import Point
from jobs.store import RunDir
from launcher.plan import build_plan
from launcher.schema import LaunchConfig, SharedPrefixConfig
from launcher.site import site_problems
from launcher.validate import find
from tests.compose import AROUND, config_of, document_of, plan_of
from tests.fakes_jobs import point

SMOKE = ("topology=dp1_prefill1x1", "workload=smoke")
REHEARSAL = (*SMOKE, "engine=rehearsal", "cluster=local")
ENGINE = (*SMOKE, "engine=vllm")


@functools.cache
def _composed(words: tuple[str, ...]) -> LaunchConfig:
    """Composing is what takes time."""
    return config_of(*words)


def problems(words: tuple[str, ...], **changes: Any) -> str:
    """Every problem of a command line with other values in its workload, one a line."""
    config = copy.deepcopy(_composed(words))
    for key, value in changes.items():
        setattr(config.workload, key, value)
    return "\n".join(find(config).problems)


def test_every_client_reads_the_file_that_the_order_names() -> None:
    for client in ("native", "vllm_bench"):
        document = document_of(*ENGINE, f"workload.client={client}")
        files = document["prompts"]["order"]["files"]
        for planned, file in zip(document["points"], files, strict=True):
            argv = planned["step"]["argv"]
            assert argv[argv.index("--prompts") + 1] == f"/RUN/{file['out']}"
            assert file["spec"]["count"] == planned["num_prompts"]
            assert file["spec"]["input_range"] == planned["range"]["input"]


def test_text_is_made_in_the_engines_python_and_ids_in_ours() -> None:
    text = document_of(*ENGINE, "engine.env_dir=/env")["prompts"]
    assert text["argv"][:3] == ["/env/bin/python", "-m", "jobs.prompts"]
    assert text["env"]["PYTHONPATH"] == AROUND.env["PYTHONPATH"]
    ids = document_of(*REHEARSAL)["prompts"]
    assert ids["argv"][0] == AROUND.python
    assert {file["form"] for file in ids["order"]["files"]} == {"ids"}


def test_in_a_container_the_step_sees_the_cache_and_the_tokenizer() -> None:
    document = document_of(
        *ENGINE,
        *("cluster=slurm_gb200", "cluster.container.kind=pyxis", "cluster.container.image=/i"),
        *("cluster.results_dir=/results", "model.tokenizer=/tok"),
    )
    command = " ".join(document["prompts"]["command"])
    assert "/results:/results" in command
    assert "/tok:/tok" in command


def test_a_run_with_the_order_of_its_plan_gets_all_its_files(tmp_path: Path) -> None:
    document = document_of(*REHEARSAL, f"cluster.results_dir={tmp_path}")
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "run.json").write_text(json.dumps({"plan": document}))
    ordered = read_order(run_dir)
    make_files(ordered)
    for planned, file in zip(document["points"], ordered, strict=True):
        made = PromptFile.open(file.out)
        assert (made.count, made.warmup) == (planned["num_prompts"], planned["warmup_requests"])
    assert (tmp_path / ".prompts").is_dir()


def test_the_source_decides_whether_two_points_are_the_same_measurement() -> None:
    plain, other = (
        plan_of(*ENGINE, f"workload.source={source}")[0].points[0].load()
        for source in ("random", "shared_prefix")
    )
    assert plain != other


def test_sessions_go_to_the_chat_endpoint_and_goodput_limits_to_the_client() -> None:
    words = ("workload.source=multi_turn", "workload.client=native", "workload.goodput.ttft_ms=200")
    argv = document_of(*ENGINE, *words)["points"][0]["step"]["argv"]
    assert argv[argv.index("--endpoint") + 1] == "chat"
    assert argv[argv.index("--goodput-ttft-ms") + 1] == "200.0"
    bench = ("workload.client=vllm_bench", "workload.goodput.ttft_ms=200")
    argv = document_of(*ENGINE, *bench)["points"][0]["step"]["argv"]
    assert argv[argv.index("--goodput") + 1] == "ttft:200.0"


@pytest.mark.parametrize(
    ("words", "changes", "said"),
    [
        (ENGINE, {"source": "randm"}, "did you mean random?"),
        (ENGINE, {"prompt_form": "tokens"}, "allowed: auto, text, ids"),
        (REHEARSAL, {"prompt_form": "text"}, "no tokenizer"),
        (REHEARSAL, {"source": "multi_turn"}, "which are text"),
        (REHEARSAL, {"chat_template": True}, "a template is text"),
        (REHEARSAL, {"client": "vllm_bench"}, "workload.client=native"),
        (ENGINE, {"source": "trace", "client": "native"}, "trace.path is not set"),
        (ENGINE, {"source": "multi_turn", "client": "vllm_bench"}, "workload.client=native"),
        (ENGINE, {"prompt_form": "ids", "client": "vllm_bench"}, "workload.client=native"),
        (ENGINE, {"verify_prompts": "most"}, "allowed: auto, all, or a number"),
        (
            ENGINE,
            {"source": "shared_prefix", "shared_prefix": SharedPrefixConfig(tokens=204)},
            "shortest prompt, 204 tokens",
        ),
    ],
)
def test_prompts_that_cannot_be_made_or_sent_are_refused(
    words: tuple[str, ...], changes: dict[str, Any], said: str
) -> None:
    assert said not in problems(words)
    assert said in problems(words, **changes)


def test_a_trace_that_is_too_short_is_refused_before_submission(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 9, "output_length": 1}\n' * 15)
    words = (*REHEARSAL, "workload.source=trace", f"workload.trace.path={path}")
    assert max(made.num_prompts for made in build_plan(config_of(*words)).points) == 16
    assert "has 15 requests" in "\n".join(site_problems(config_of(*words), AROUND))


def test_the_order_of_another_release_is_refused_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"plan": {"prompts": {"order": {}}}}))
    with pytest.raises(RuntimeError, match=r"run\.json: orders no prompts"):
        read_order(tmp_path)


def test_a_replayed_trace_is_held_against_its_own_lengths(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    trace = tmp_path / "trace.jsonl"
    lines = [(900, 7), (1500, 5), (800, 9), (1000, 6)]
    row = '{{"timestamp": 0, "input_length": {}, "output_length": {}}}\n'
    trace.write_text("".join(row.format(*line) for line in lines))
    out = tmp_path / "points/raw/0-c4.prompts"
    maker = Maker(cache=PromptCache(tmp_path / "kept"), form="ids", vocab_size=99)
    maker.make(Spec(source="trace", count=4, warmup=2, trace_path=str(trace)), out)
    planned = from_json(Point, point(0, 4, None, "http://x") | {"prompts": {"source": "trace"}})
    assert asked_ranges(planned, run_dir) == ([800, 1500], [5, 9])
    drawn = from_json(Point, point(0, 4, None, "http://x"))
    assert asked_ranges(drawn, run_dir) == ([100, 120], [8, 10])
