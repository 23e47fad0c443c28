"""`python -m jobs.rehearsal`: see options.py for the arguments."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from jobs.rehearsal.options import parse_options
from jobs.rehearsal.serving import serve


def main() -> int:
    """The process; its exit status."""
    options = parse_options(sys.argv[1:], os.environ)
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO,
        format="(Rehearsal pid=%(process)d) %(levelname)s %(asctime)s [%(filename)s:%(lineno)d] "
        "%(message)s",
        datefmt="%m-%d %H:%M:%S",
    )
    return asyncio.run(serve(options))


if __name__ == "__main__":
    sys.exit(main())
