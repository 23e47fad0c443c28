"""Prompts as the JSON lines that `vllm bench serve --dataset-name custom` reads."""

from __future__ import annotations

import json
import os
from pathlib import Path

from jobs.prompts.reader import PromptFile, PromptFileError
from jobs.targets import check_target


def write_lines(file: PromptFile, out: Path) -> None:
    """One object a measured request, {"prompt", "prompt_len", "output_tokens", "output_len"}, at
    `out`, whole or not at all; warm-up requests are left out, vLLM makes its own."""
    check_target(out)
    if file.form != "text":
        raise PromptFileError(f"{file.path}: form {file.form}; vLLM's custom data set is of texts")
    aside = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with aside.open("w", encoding="utf-8") as stream:
            for number in range(file.warmup, len(file)):
                output = int(file.output_tokens[number])
                lengths = {"prompt_len": int(file.prompt_tokens[number]), "output_len": output}
                line = {"prompt": file.text(number).decode(), **lengths, "output_tokens": output}
                stream.write(json.dumps(line) + "\n")
        aside.replace(out)
    finally:
        aside.unlink(missing_ok=True)
