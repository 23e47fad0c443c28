"""Runs inside the engine environment: which command lines its own `vllm serve` parser takes.

Standard input: a JSON list of argument lists. Standard output's last line: a list of true (taken)
or the parser's message.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys


def main() -> None:
    """Every command line parsed, none started."""
    import vllm.entrypoints.cli.serve as serve  # noqa: PLC0415 - the engine's own module
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415

    parser = serve.make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    answers: list[bool | str] = []
    for argv in json.load(sys.stdin):
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parser.parse_args(["MODEL", *argv])
            answers.append(True)
        except (SystemExit, ValueError, TypeError, IndexError) as error:
            answers.append(said.getvalue().strip()[-300:] or str(error) or "refused")
    sys.stdout.write("\n" + json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
