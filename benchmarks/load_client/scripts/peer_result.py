"""What a peer's script leaves: one JSON object in the file named by PEER_RESULT."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path


def raise_files() -> None:
    """As many open files as are allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def tell(
    cpu_s: float,
    wall_s: float,
    failed: int,
    rows: list[tuple[float, float, int]],
    gaps_s: list[float] | None = None,
    **more: float,
) -> None:
    """`rows`: TTFT and E2E in seconds and output tokens of every good request.

    `gaps_s`: between two chunks, all good requests' (its ITL). `more` is kept as it is.
    """
    Path(os.environ["PEER_RESULT"]).write_text(
        json.dumps(
            {
                "cpu_s": cpu_s,
                "wall_s": wall_s,
                "completed": len(rows),
                "failed": failed,
                "ttft_s": [ttft for ttft, _, _ in rows],
                "e2el_s": [e2el for _, e2el, _ in rows],
                "gaps_s": gaps_s or [],
                "more": more,
                "tpot_s": [(e2el - ttft) / max(made - 1, 1) for ttft, e2el, made in rows],
            }
        )
    )
