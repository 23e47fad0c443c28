"""The vllm_bench client: exact prompts, the gate, and vLLM's own benchmark behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jobs.clients import vllm_bench, vllm_gate, vllm_module, vllm_serve
from jobs.progress import read_progress
from jobs.prompts.cache import PromptCache
from jobs.prompts.making import Maker
from jobs.prompts.reader import PromptFile
from jobs.prompts.spec import Spec
from jobs.result_file import goodput_share
from tests.toy_tokenizers import ToyTokenizer

REPOSITORY = Path(__file__).parent.parent
ENGINE = Path(os.environ.get("ENGINE_ENV") or REPOSITORY / ".engines" / "vllm_cpu")
needs_engine = pytest.mark.skipif(
    not (ENGINE / "models" / "tiny-qwen3").is_dir(), reason=f"no CPU engine environment at {ENGINE}"
)
PROMPTS = "c4.prompts"


def prompt_file(path: Path, toy: bool = True) -> PromptFile:
    """Eight prompts and three to warm up with, of text or of ids."""
    maker = Maker(
        cache=PromptCache(path.parent / "kept"),
        form="text" if toy else "ids",
        tokenizer=ToyTokenizer(),
        vocab_size=100,
    )
    lengths: dict[str, Any] = {"input_range": (40, 48), "output_range": (4, 6)}
    maker.make(Spec(count=8, warmup=3, seed=5, **lengths), path)
    return PromptFile.open(path)


def arguments(tmp_path: Path, *bench: str) -> list[str]:
    """A command line of the client."""
    words = ["--gate", str(tmp_path), "--name", "c4", "--prompts", str(tmp_path / PROMPTS)]
    return [*words, "--result", str(tmp_path / "c4.json"), "--", *bench]


def test_the_words_after_the_dashes_go_to_vllm_without_its_own_name(tmp_path: Path) -> None:
    for lead in ([], ["vllm", "bench", "serve"], ["bench", "serve"]):
        options, bench = vllm_bench.parse_arguments(arguments(tmp_path, *lead, "--model", "m"))
        assert bench == ["--model", "m"]
        assert options.prompts == tmp_path / PROMPTS


def test_prompts_are_waited_for_until_they_are_there_or_the_client_is_told_to_stop(
    tmp_path: Path,
) -> None:
    gate = vllm_gate.Gate(tmp_path, "c4")
    maker = threading.Timer(0.2, prompt_file, [tmp_path / PROMPTS, False])
    maker.start()
    vllm_bench.wait_for_prompts(tmp_path / PROMPTS, gate)
    maker.join()
    (tmp_path / "c4.stop").touch()
    with pytest.raises(vllm_gate.GateStopError):
        vllm_bench.wait_for_prompts(tmp_path / "none", gate)


def test_a_stop_file_or_a_lost_gate_folder_ends_the_wait(tmp_path: Path) -> None:
    gate = vllm_gate.Gate(tmp_path, "c4")
    (tmp_path / "c4.go").touch()
    gate.wait_for_go()
    (tmp_path / "c4.go").unlink()
    (tmp_path / "c4.stop").touch()
    with pytest.raises(vllm_gate.GateStopError, match=r"c4\.stop"):
        gate.wait_for_go()
    with pytest.raises(vllm_gate.GateStopError, match="is gone"):
        vllm_gate.Gate(tmp_path / "lost", "c4").wait_for_go()


def test_a_prompt_file_of_another_length_is_refused_with_both_numbers(tmp_path: Path) -> None:
    made = prompt_file(tmp_path / PROMPTS)
    warmup, measured = vllm_serve.load_prompts(made.path, 8)
    assert (len(warmup), len(measured)) == (3, 8)
    assert [p.text for p in warmup + measured] == [made.text(n).decode() for n in range(11)]
    assert [p.tokens for p in measured] == made.prompt_tokens[3:].tolist()
    with pytest.raises(vllm_module.BenchError, match="holds 8 prompts, --num-prompts asks for 2"):
        vllm_serve.load_prompts(made.path, 2)
    with pytest.raises(vllm_module.BenchError, match="form ids"):
        vllm_serve.load_prompts(prompt_file(tmp_path / "ids.prompts", toy=False).path, 8)


def test_without_vllm_the_client_says_whose_python_to_use(tmp_path: Path) -> None:
    bench = ["--model", "m", "--num-prompts", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "jobs.clients.vllm_bench", *arguments(tmp_path, *bench)],
        cwd=REPOSITORY,
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
    bench += ["--goodput", "ttft:60000", "tpot:60000"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "a-key"}

    def start() -> subprocess.Popen[str]:
        python = str(ENGINE / "bin" / "python")
        own = ["--warmup-rate", "50", "--vllm-bench-json", str(tmp_path / "kept" / "c4.json")]
        command = [python, "-m", "jobs.clients.vllm_bench", *own, *arguments(tmp_path, *bench)]
        child = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
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
    made = prompt_file(tmp_path / PROMPTS)
    texts = [made.text(number).decode() for number in range(len(made))]
    child = client()
    wait_ready(child, tmp_path)
    assert seen == []
    (tmp_path / "c4.go").touch()
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 0, output
    assert sorted(r["prompt"] for r in seen) == sorted(texts)
    assert {r["prompt"] for r in seen[:3]} == set(texts[:3])
    assert {r["key"] for r in seen} == {"Bearer a-key"}
    assert {(r["temperature"], r["ignore_eos"]) for r in seen} == {(0.0, True)}
    result = json.loads((tmp_path / "c4.json").read_text())
    assert (result["completed"], result["failed"], result["error_counts"]) == (8, 0, {})
    assert result["total_input_tokens"] == made.prompt_tokens[3:].sum()
    assert result["total_output_tokens"] == made.output_tokens[3:].sum()
    assert {"p50_ttft_ms", "p90_tpot_ms", "p99_itl_ms", "p99_e2el_ms"} <= set(result)
    assert goodput_share(result, 8) == pytest.approx(1.0)
    assert result["load"]["client_processes"] == 1
    assert result["load"]["client_cpu_s"] > 0
    kept = json.loads((tmp_path / "kept" / "c4.json").read_text())
    assert sum(kept["output_lens"]) == result["total_output_tokens"]
    assert "generated_texts" not in kept
    told = read_progress(tmp_path / "c4.progress")
    assert told is not None
    assert (told.stage, told.total, told.exact) == ("measured", 8, False)


@needs_engine
@pytest.mark.engine
def test_a_client_told_to_stop_at_the_gate_ends_with_3_and_writes_no_result(
    tmp_path: Path, client: Client
) -> None:
    prompt_file(tmp_path / PROMPTS)
    child = client()
    wait_ready(child, tmp_path)
    (tmp_path / "c4.stop").touch()
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 3, output
    assert not (tmp_path / "c4.json").exists()
