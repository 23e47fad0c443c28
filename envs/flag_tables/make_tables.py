#!/usr/bin/env python3
"""Make the tables of engine options that the launcher ships, from the releases themselves.

    python3 envs/flag_tables/make_tables.py --python ENGINE_PYTHON [--work DIR]
        [--releases 0.26.0 0.27.0 ...] [--out launcher/options]

ENGINE_PYTHON is an interpreter with vLLM's dependencies, torch of any kind and vllm-router: that of
envs/vllm_cpu. For every release (by default each final one since 0.26.0 that pip finds) the source
is fetched with pip, put in front of that interpreter, and asked by dump_release.py in a process of
its own; nothing is compiled. fold.py then joins the answers into one history per name. Answers are
kept in DIR, so that a new release costs one download and about a minute. Standard library only.

Older releases are not executed: only the names in their source are read, so that a name which was
dropped before the first supported release can be told from a misspelt one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from fold import names_before, table_text, vllm_table

HERE = Path(__file__).resolve().parent
OLDEST = (0, 26, 0)
FORMER = ("0.18.1", "0.19.1", "0.20.2", "0.21.0", "0.22.1", "0.23.0", "0.24.0", "0.25.1")
BUILD = ("setuptools>=77.0.3,<81", "setuptools-rust", "setuptools-scm", "wheel", "jinja2")


def final_releases(python: Path) -> list[str]:
    """Every final vLLM release since OLDEST, oldest first, as pip knows them."""
    said = run([str(python), "-m", "pip", "index", "versions", "vllm"])
    listed = re.search(r"Available versions: (.*)", said)
    texts = listed.group(1).split(", ") if listed else []
    final = [text for text in texts if re.fullmatch(r"\d+\.\d+\.\d+", text)]
    keyed = sorted((tuple(int(part) for part in text.split(".")), text) for text in final)
    return [text for key, text in keyed if key >= OLDEST]


def run(argv: list[str], **env: str) -> str:
    """Standard output of a command; its last lines and exit code 2 when it fails."""
    done = subprocess.run(
        argv, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        sys.stderr.write(f"{' '.join(argv[:6])} ...: exit {done.returncode}\n{tail}\n")
        raise SystemExit(2)
    return done.stdout


def build_python(python: Path, work: Path) -> Path:
    """An interpreter that can read an sdist's metadata without compiling: `python`'s packages and
    vLLM's build tools, in an environment of its own."""
    home = work / "build"
    made = home / "bin" / "python"
    if not made.exists():
        run([str(python), "-m", "venv", str(home)])
        site = run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
        here = run([str(made), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
        Path(here.strip(), "engine.pth").write_text(site)
        run([str(made), "-m", "pip", "install", "-q", *BUILD])
    return made


def source(release: str, python: Path, work: Path) -> Path:
    """The unpacked source of a release, fetched once."""
    folder = work / "src" / f"vllm-{release}"
    if not (folder / "vllm" / "envs.py").exists():
        archive = work / "sdist" / f"vllm-{release}.tar.gz"
        if not archive.exists():
            argv = [str(build_python(python, work)), "-m", "pip", "download", "-q", "--no-deps"]
            argv += ["--no-binary", "vllm", "--no-build-isolation", "-d", str(archive.parent)]
            run(
                [*argv, f"vllm=={release}"],
                VLLM_TARGET_DEVICE="empty",
                VLLM_VERSION_OVERRIDE=release,
            )
        with tarfile.open(archive) as bundle:
            bundle.extractall(work / "src", filter="data")
    return folder


def answers(release: str, python: Path, work: Path) -> dict[str, object]:
    """What a release says of itself, asked once."""
    out = work / "dumps" / f"{release}.json"
    if not out.exists():
        folder = source(release, python, work)
        out.parent.mkdir(parents=True, exist_ok=True)
        script = [str(python), str(HERE / "dump_release.py"), str(out)]
        run(script, PYTHONPATH=str(folder), HF_HUB_OFFLINE="1")
        sys.stdout.write(f"{release}: asked\n")
    loaded: dict[str, object] = json.loads(out.read_text())
    return loaded


def main() -> int:
    """Both tables written; prints releases, entries and bytes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path(".flag_tables"))
    parser.add_argument("--releases", nargs="+")
    parser.add_argument("--out", type=Path, default=HERE.parent.parent / "launcher" / "options")
    args = parser.parse_args()
    releases = args.releases or final_releases(args.python)
    dumps = {release: answers(release, args.python, args.work) for release in releases}
    first = source(releases[0], args.python, args.work)
    former = {release: source(release, args.python, args.work) for release in FORMER}
    table = vllm_table(dumps, names_before(former, first, dumps[releases[0]]))
    router_out = args.work / "dumps" / "vllm_router.json"
    run([str(args.python), str(HERE / "dump_router.py"), str(router_out)])
    router = json.loads(router_out.read_text())
    for name, text in {
        "vllm.json": table_text(table),
        "vllm_router.json": table_text(
            {
                "releases": [router["release"]],
                "flags": {flag: [[0, 0, spec]] for flag, spec in router["flags"].items()},
            }
        ),
    }.items():
        (args.out / name).write_text(text)
        sys.stdout.write(f"{args.out / name}: {len(text)} bytes\n")
    sys.stdout.write(f"releases: {', '.join(releases)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
