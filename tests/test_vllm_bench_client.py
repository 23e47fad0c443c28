"""The vllm_bench client: exact prompts, the gate, and vLLM's own benchmark behind it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jobs.clients import prompts, vllm_bench
from jobs.progress import read_progress

REPOSITORY = Path(__file__).parent.parent
ENGINE = Path(os.environ.get("ENGINE_ENV") or REPOSITORY / ".engines" / "vllm_cpu")
needs_engine = pytest.mark.skipif(
    not (ENGINE / "models" / "tiny-qwen3").is_dir(), reason=f"no CPU engine environment at {ENGINE}"
)
PROMPTS = "c4.prompts.jsonl"
LETTERS = "abcdefghijklmnop"


class WordTokenizer:
    """One token a word; with `clash` one more where a word on x meets one on a."""

    name = "words"

    def __init__(self, clash: bool = False, special: int = 0) -> None:
        self.clash = clash
        self.special = special
        self.words = [f"{a}{b}{c}" for a in LETTERS for b in LETTERS for c in "xyz"]
        self.ids = {word: number for number, word in enumerate(self.words)}

    def encode(self, text: str) -> list[int]:
        words = text.split()
        clashes = sum(a[-1] + b[0] == "xa" for a, b in itertools.pairwise(words))
        extra = clashes if self.clash else 0
        return [0] * (self.special + len(words) + extra)

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self.ids[text.strip()]] for text in texts]

    def tokens(self) -> list[tuple[int, str]]:
        return [(number, "Ġ" + word) for word, number in self.ids.items()]


def spec(**changes: Any) -> prompts.PromptSpec:
    """A small prompt file's description."""
    values: dict[str, Any] = {
        "source": "random",
        "tokenizer": "words",
        "trust_remote_code": False,
        "count": 40,
        "warmup": 4,
        "input_range": (50, 60),
        "output_range": (3, 5),
        "seed": 1,
    }
    return prompts.PromptSpec(**{**values, **changes})


def records(description: prompts.PromptSpec, tokenizer: WordTokenizer) -> list[dict[str, Any]]:
    """All records of a description, made in this process."""
    maker = prompts.RandomWords(tokenizer)
    total = description.warmup + description.count
    return [json.loads(prompts.make_record(description, maker, n)) for n in range(total)]


@pytest.mark.parametrize(("clash", "special"), [(False, 0), (True, 0), (False, 1), (True, 2)])
def test_every_prompt_has_exactly_the_tokens_it_claims(clash: bool, special: int) -> None:
    tokenizer = WordTokenizer(clash, special)
    for record in records(spec(), tokenizer):
        assert len(tokenizer.encode(record["prompt"])) == record["prompt_len"]


def test_both_bounds_of_both_ranges_are_drawn_and_nothing_outside() -> None:
    made = records(spec(count=400, input_range=(5, 8)), WordTokenizer())
    assert {r["prompt_len"] for r in made} == {5, 6, 7, 8}
    assert {r["output_len"] for r in made} == {3, 4, 5}


def test_the_same_seed_gives_the_same_prompts_and_another_seed_others() -> None:
    first = records(spec(), WordTokenizer())
    assert records(spec(), WordTokenizer()) == first
    assert records(spec(seed=2), WordTokenizer())[5]["prompt"] != first[5]["prompt"]


def test_no_two_prompts_share_a_prefix_and_warm_up_has_prompts_of_its_own() -> None:
    made = records(spec(count=200), WordTokenizer())
    heads = {tuple(r["prompt"].split()[:8]) for r in made}
    assert len(heads) == len(made)
    assert [r["warmup"] for r in made] == [True] * 4 + [False] * 200


def test_a_measured_prompt_does_not_depend_on_the_number_of_warm_up_prompts() -> None:
    assert records(spec(warmup=0), WordTokenizer()) == records(spec(warmup=4), WordTokenizer())[4:]


def test_a_length_that_cannot_be_met_is_an_error_that_names_the_tokenizer() -> None:
    tokenizer = WordTokenizer(special=9)
    maker = prompts.RandomWords(tokenizer)
    with pytest.raises(prompts.PromptError, match="words: no prompt of exactly 5 tokens"):
        maker(Random(0), 5)


def test_a_vocabulary_without_words_is_an_error_that_names_the_way_out() -> None:
    tokenizer = WordTokenizer()
    tokenizer.ids = dict(list(tokenizer.ids.items())[:10])
    with pytest.raises(prompts.PromptError, match="--prompt-source"):
        prompts.RandomWords(tokenizer)


def test_a_prompt_file_is_kept_only_for_the_arguments_it_was_made_from(tmp_path: Path) -> None:
    out = tmp_path / "c4.prompts.jsonl"
    out.write_text("")
    assert not prompts.is_made(spec(), out)
    prompts.spec_path(out).write_text(json.dumps(dataclasses.asdict(spec())))
    assert prompts.is_made(spec(), out)
    assert not prompts.is_made(spec(seed=2), out)


def arguments(tmp_path: Path, *bench: str, warmup: int = 3) -> list[str]:
    """A command line of the client."""
    words = ["--gate", str(tmp_path), "--name", "c4", "--prompts", str(tmp_path / PROMPTS)]
    words += ["--input-range", "40", "48", "--output-range", "4", "6", "--seed", "5"]
    words += ["--warmup", str(warmup), "--result", str(tmp_path / "c4.json"), "--"]
    return [*words, *bench]


def test_the_words_after_the_dashes_go_to_vllm_without_its_own_name(tmp_path: Path) -> None:
    for lead in ([], ["vllm", "bench", "serve"], ["bench", "serve"]):
        options, bench = vllm_bench.parse_arguments(arguments(tmp_path, *lead, "--model", "m"))
        assert bench == ["--model", "m"]
        assert options.input_range == [40, 48]


def test_the_prompt_maker_gets_tokenizer_and_count_from_vllms_words(tmp_path: Path) -> None:
    bench = ["--model", "served", "--tokenizer", "/models/m", "--num-prompts", "12", "--seed", "9"]
    command = vllm_bench.maker_command(*vllm_bench.parse_arguments(arguments(tmp_path, *bench)))
    text = " ".join(command)
    assert "--tokenizer /models/m --count 12 --warmup 3 --seed 5 --input-range 40 48" in text
    with pytest.raises(vllm_bench.BenchError, match="--num-prompts"):
        vllm_bench.maker_command(*vllm_bench.parse_arguments(arguments(tmp_path, "--model", "m")))


def test_a_stop_file_or_a_lost_gate_folder_ends_the_wait(tmp_path: Path) -> None:
    gate = vllm_bench.Gate(tmp_path, "c4")
    (tmp_path / "c4.go").touch()
    gate.wait_for_go()
    (tmp_path / "c4.go").unlink()
    (tmp_path / "c4.stop").touch()
    with pytest.raises(vllm_bench.GateStopError, match=r"c4\.stop"):
        gate.wait_for_go()
    with pytest.raises(vllm_bench.GateStopError, match="is gone"):
        vllm_bench.Gate(tmp_path / "lost", "c4").wait_for_go()


def test_a_prompt_file_of_another_length_is_refused_with_both_numbers(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    line = {"prompt": " a", "prompt_len": 1, "output_len": 2}
    path.write_text(json.dumps({**line, "warmup": True}) + "\n" + json.dumps(line) + "\n")
    warmup, measured = vllm_bench.load_prompts(path, 1)
    assert len(warmup) == len(measured) == 1
    with pytest.raises(vllm_bench.BenchError, match="holds 1 prompts, --num-prompts asks for 2"):
        vllm_bench.load_prompts(path, 2)


def test_errors_are_counted_by_the_last_line_of_what_vllm_kept() -> None:
    errors = ["", "Traceback:\n  File x\nTimeoutError: late\n", "Unauthorized", "Unauthorized", ""]
    assert vllm_bench.count_errors(errors, 4) == {
        "Unauthorized": 2,
        "TimeoutError: late": 1,
        "no reason given": 1,
    }


def test_the_result_keeps_no_arrays_and_no_number_json_cannot_say() -> None:
    result = {"failed": 0, "errors": [""], "itls": [[0.1]], "ttfts": [0.2], "duration": math.nan}
    kept, arrays = vllm_bench.split_result(result)
    assert kept == {"failed": 0, "duration": None, "error_counts": {}}
    assert arrays == {"ttfts": [0.2], "errors": [""], "latencies": [pytest.approx(0.3)]}


class FakeRequest:
    def __init__(self, prompt: str, prompt_len: int, expected_output_len: int) -> None: ...


def get_samples() -> None: ...


async def benchmark(
    input_requests: object,
    disable_tqdm: object,
    num_warmups: object,
    ready_check_timeout_sec: object,
) -> None: ...


async def main_async() -> None:
    get_samples()
    await benchmark(1, 2, 3, 4)


def serve_names(**changes: object) -> dict[str, Any]:
    """The names of a benchmark module that has all that is needed."""
    names: dict[str, Any] = {"main": main_async, "main_async": main_async}
    names.update(
        add_cli_args=get_samples,
        get_samples=get_samples,
        benchmark=benchmark,
        SampleRequest=FakeRequest,
    )
    return {**names, **changes}


def test_a_benchmark_module_of_the_known_shape_is_accepted() -> None:
    assert vllm_bench.unknown_shape(serve_names()) == ""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"get_samples": None}, "no get_samples"),
        ({"main_async": benchmark}, "main_async does not call get_samples"),
        ({"benchmark": get_samples}, "benchmark takes no input_requests"),
        ({"SampleRequest": WordTokenizer}, "SampleRequest takes no prompt"),
    ],
)
def test_a_changed_benchmark_module_is_named_for_what_is_missing(
    change: dict[str, object], problem: str
) -> None:
    assert vllm_bench.unknown_shape(serve_names(**change)).startswith(problem)


def test_without_vllm_the_client_says_whose_python_to_use(tmp_path: Path) -> None:
    bench = ["--model", "m", "--num-prompts", "2"]
    done = subprocess.run(
        [sys.executable, vllm_bench.__file__, *arguments(tmp_path, *bench)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "run this with the engine's Python" in done.stderr


class FakeServer(BaseHTTPRequestHandler):
    """Streams as many tokens as asked for; counts prompts by their words."""

    protocol_version = "HTTP/1.0"
    seen: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append({**body, "key": self.headers.get("authorization")})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        chunks: list[dict[str, Any]] = [{"choices": [{"text": " x"}]}] * body["max_tokens"]
        usage = {
            "completion_tokens": body["max_tokens"],
            "prompt_tokens": len(body["prompt"].split()),
        }
        for chunk in [*chunks, {"choices": [], "usage": usage}]:
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server's address and the requests it saw."""
    handler = type("Handler", (FakeServer,), {"seen": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as fake:
        threading.Thread(target=fake.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{fake.server_port}", handler.seen  # type: ignore[attr-defined]
        fake.shutdown()


Client = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def client(tmp_path: Path, server: tuple[str, list[dict[str, Any]]]) -> Iterator[Client]:
    """Starts the client with the engine's Python against the server; ended with the test."""
    started: list[subprocess.Popen[str]] = []
    model = str(ENGINE / "models" / "tiny-qwen3")
    bench = ["--backend", "vllm", "--base-url", server[0], "--endpoint", "/v1/completions"]
    bench += ["--model", "tiny", "--tokenizer", model, "--num-prompts", "8"]
    bench += ["--ignore-eos", "--temperature", "0", "--disable-tqdm", "--max-concurrency", "2"]
    bench += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "a-key"}

    def start() -> subprocess.Popen[str]:
        python = str(ENGINE / "bin" / "python")
        command = [python, vllm_bench.__file__, *arguments(tmp_path, *bench)]
        child = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def wait_ready(child: subprocess.Popen[str], folder: Path) -> None:
    """Returns when the client waits at the gate."""
    deadline = time.monotonic() + 240
    while not (folder / "c4.ready").exists():
        assert child.poll() is None, child.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.1)


@needs_engine
@pytest.mark.engine
def test_vllms_own_benchmark_sends_our_prompts_once_and_only_after_go(
    tmp_path: Path, server: tuple[str, list[dict[str, Any]]], client: Client
) -> None:
    seen = server[1]
    child = client()
    wait_ready(child, tmp_path)
    assert seen == []
    (tmp_path / "c4.go").touch()
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 0, output
    made = [json.loads(line) for line in (tmp_path / PROMPTS).read_text().splitlines()]
    assert sorted(r["prompt"] for r in seen) == sorted(r["prompt"] for r in made)
    assert {r["prompt"] for r in seen[:3]} == {r["prompt"] for r in made if r["warmup"]}
    assert {r["key"] for r in seen} == {"Bearer a-key"}
    assert {(r["temperature"], r["ignore_eos"]) for r in seen} == {(0.0, True)}
    result = json.loads((tmp_path / "c4.json").read_text())
    assert (result["completed"], result["failed"], result["error_counts"]) == (8, 0, {})
    measured = [r for r in made if not r["warmup"]]
    assert result["total_input_tokens"] == sum(r["prompt_len"] for r in measured)
    assert result["total_output_tokens"] == sum(r["output_len"] for r in measured)
    assert {"p50_ttft_ms", "p90_tpot_ms", "p99_itl_ms", "p99_e2el_ms"} <= set(result)
    told = read_progress(tmp_path / "c4.progress")
    assert told is not None
    assert (told.stage, told.total, told.exact) == ("measured", 8, False)


@needs_engine
@pytest.mark.engine
def test_a_client_told_to_stop_at_the_gate_ends_with_3_and_writes_no_result(
    tmp_path: Path, client: Client
) -> None:
    child = client()
    wait_ready(child, tmp_path)
    (tmp_path / "c4.stop").touch()
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 3, output
    assert not (tmp_path / "c4.json").exists()
