"""vllm-router's own options, as JSON: `PYTHON dump_router.py OUT.json`, where it is installed."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dump_release import options


def dump() -> dict[str, Any]:
    """The installed release's number and every option of its parser."""
    from vllm_router.router_args import RouterArgs

    parser = argparse.ArgumentParser()
    RouterArgs.add_cli_args(parser, use_router_prefix=False)
    return {
        "release": version("vllm-router"),
        "flags": {name: spec for name, spec, _ in options(parser)},
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(dump(), indent=1, sort_keys=True) + "\n")
