"""Size of report.html and time until it can be used, with many runs, in a real Chromium.

    python benchmarks/report_page.py --runs 1000

The peer in the same browser is the table with the same columns as plain HTML (pandas' to_html),
without plots, without a line of script.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
from playwright.sync_api import Browser

from analysis.reference import load_reference
from analysis.report_data import FIRST_COLUMNS
from tests.analysis_runs import outcome, plan, repeat, run_json, write_run
from tests.browser import chromium
from tests.report_runs import MODEL, labels, measured

POINTS = 9
READY_MS = """() => new Promise((done) => requestAnimationFrame(() => setTimeout(
    () => done(performance.now()), 0)))"""


def make_runs(root: Path, count: int) -> None:
    """`count` runs of nine points, the five shapes in turn."""
    reference = load_reference()
    shapes = reference.shapes()
    near = [point for point in reference.points if point.prefill_endpoints == 6][:POINTS]
    for number in range(count):
        shape = shapes[number % len(shapes)]
        run_id = f"20261129-{number:06d}-{shape.topology}-b1"
        about = run_json(
            run_id,
            labels=labels(shape.topology),
            plan=plan(2 * shape.prefill_endpoints, 8, shape.allocated_gpus, served_model=MODEL),
        )
        points = [
            measured(run_id, index, replace(one, generation_tps_per_user=60 - 5 * index))
            for index, one in enumerate(near)
        ]
        write_run(root / run_id, about, points, [repeat(0, run_id)], outcome(run_id))


def time_to_use(browser: Browser, file: Path) -> float:
    """Milliseconds from navigation to a page that is drawn and answers; best of three."""
    times = []
    for _ in range(3):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(file.as_uri(), wait_until="load", timeout=300_000)
        times.append(float(page.evaluate(READY_MS)))
        page.close()
    return min(times)


def clicks(browser: Browser, file: Path) -> dict[str, float]:
    """Milliseconds of script for a reader's usual moves; best of three."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(file.as_uri(), wait_until="load", timeout=300_000)
    moves = {
        "one series off": "document.querySelector('#series input').click()",
        "per allocated GPU": "document.querySelector('#divisors input:not(:checked)').click()",
        "sorted": "document.querySelectorAll('#table th button')[7].click()",
        "found by text": "(f => { f.value = 'prefill7'; f.dispatchEvent(new Event('input')); })"
        "(document.getElementById('find'))",
    }
    taken = {}
    for name, script in moves.items():
        timed = f"() => {{ const t = performance.now(); {script}; return performance.now() - t; }}"
        taken[name] = min(float(page.evaluate(timed)) for _ in range(3))
    page.close()
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as scratch:
        root, page = Path(scratch), Path(scratch) / "report.html"
        make_runs(root / "runs", count)
        begun = time.monotonic()
        words = [sys.executable, "-m", "analysis", "report", str(root / "runs"), "--out", str(page)]
        subprocess.run(words, check=True)
        took = time.monotonic() - begun
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        table, plain = root / "table.csv", root / "plain.html"
        words = [sys.executable, "-m", "analysis", "table", str(root / "runs"), "--out", str(table)]
        subprocess.run([*words, "--columns", ",".join(FIRST_COLUMNS)], check=False)
        pd.read_csv(table).to_html(plain)
        with chromium() as browser:
            ours, peer = time_to_use(browser, page), time_to_use(browser, plain)
            sizes = [file.stat().st_size / 1e6 for file in (page, plain)]
            sys.stdout.write(
                f"{count} runs x {POINTS} points: written in {took:.1f} s, {memory:.0f} MB;"
                f" page {sizes[0]:.2f} MB, to_html {sizes[1]:.2f} MB\n"
                f"ready to use: {ours:.0f} ms, to_html {peer:.0f} ms, ratio {ours / peer:.2f}\n"
            )
            for name, taken in clicks(browser, page).items():
                sys.stdout.write(f"{name}: {taken:.0f} ms\n")


if __name__ == "__main__":
    main()
