"""What `python -m jobs watch` draws in a terminal: of a run, and of a sweep with one failure.

    python benchmarks/watch_capture.py

Starts a sweep of two jobs on this machine (stand-in servers; the second one's decode dies while it
measures), watches it in a pseudo terminal of 110 columns, and prints of every state that the runs
were in the last picture drawn, as text; then what `jobs show` says of the sweep.
docs/watch-a-run.md holds what it printed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 110, 40
LINE = (
    *("engine=rehearsal", "cluster=local", "topology=dep2_prefill1x2", "workload=smoke"),
    *("workload.concurrency=[4,16]", "workload.osl=64", "accuracy=none", "allow_dirty=true"),
    *("+engine.options.start-s=6", "+engine.options.decode-tps=10", "sweep.order=as_given"),
    "+engine.options.fail=null,'decode/exit:3@50'",
)
REDRAWN = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
STATE = re.compile(r"  (starting|sweep \d+/\d+|accuracy|ending|completed|failed|queued)")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}


def main() -> int:
    """Runs, watches, prints."""
    with tempfile.TemporaryDirectory(prefix="watch-") as folder:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "launcher", "-m", *LINE, f"cluster.results_dir={folder}/runs"],
            cwd=folder,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        results = Path(folder, "runs")
        while not list(results.glob("*/*/run.json")):
            if launcher.poll() is not None:
                sys.exit(f"the launcher ended with {launcher.returncode}")
            time.sleep(0.2)
        (home,) = results.glob("*-sweep-*")
        kept: dict[tuple[str, ...], str] = {}
        while launcher.poll() is None:  # the runs come one after another
            for picture in watched(home):
                kept[tuple(STATE.findall(picture))] = picture
        for picture in kept.values():
            sys.stdout.write(f"{picture}\n\n")
        shown = subprocess.run(
            [sys.executable, "-m", "jobs", "show", home.name, "-r", str(results)],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        sys.stdout.write(shown.stdout.replace(folder, "/RESULTS"))
    return 0


def watched(home: Path) -> Iterator[str]:
    """Every picture that one `watch` draws, until it ends by itself."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    words = [sys.executable, "-m", "jobs", "watch", str(home)]
    watch = subprocess.Popen(words, env=ENVIRONMENT, stdout=slave, stderr=slave, stdin=slave)
    os.close(slave)
    text = ""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:  # the terminal's last writer is gone
            break
        if not block:
            break
        text += block.decode("utf-8", "replace")
    watch.wait()
    os.close(master)
    for part in REDRAWN.split(text):
        lines = [line.rstrip() for line in ESCAPE.sub("", part).replace("\r", "").splitlines()]
        if any(STATE.search(line) for line in lines):
            yield "\n".join(line for line in lines if line)


if __name__ == "__main__":
    sys.exit(main())
