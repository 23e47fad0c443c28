"""`python -m jobs COMMAND`: from its first word to the module that has it."""

from __future__ import annotations

from jobs import stop_signals  # noqa: F401 - before all others: it holds signals back meanwhile

# isort: split
import importlib
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """The command's exit status. `list` is asked often and of many runs, so it does not read what
    runs a run: that is half of what it would cost for three hundred of them."""
    listing = arguments[:1] == ["list"]
    found = importlib.import_module("jobs.runs.list_command" if listing else "jobs.commands")
    code: int = found.main(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
