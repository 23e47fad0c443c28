"""`python -m jobs.preflight SPEC OUT`: what one node has and lacks, looked at on that node.

SPEC and OUT are JSON files. All problems are reported together. Standard library only, so that
any Python of the node can run it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

IMEX_CHANNEL = Path("/dev/nvidia-caps-imex-channels/channel0")
NO_FABRIC = re.compile(r"^[0-]*$|N/A", re.IGNORECASE)
GB = 1e9


def main(arguments: list[str]) -> int:
    """Writes the report; 0 even with problems, since the report has them."""
    spec = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    facts = gather_facts(spec)
    report = {"node": spec["name"], "problems": list(problems(spec, facts)), "facts": facts}
    out = Path(arguments[1])
    aside = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    aside.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    aside.replace(out)
    return 0


def gather_facts(spec: dict[str, Any]) -> dict[str, Any]:
    """What the node is, problem or not."""
    facts: dict[str, Any] = {
        "host": socket.gethostname(),
        "cpus": len(os.sched_getaffinity(0)),
        "host_cpus": os.cpu_count(),
        "free_disk_gb": {
            folder: round(shutil.disk_usage(folder).free / GB, 1)
            for folder in dict.fromkeys([spec["run_dir"], tempfile.gettempdir()])
            if Path(folder).is_dir()
        },
        "python": sys.version.split()[0],
    }
    if spec["needs_gpu"]:
        facts |= gpu_facts()
    return facts


def gpu_facts() -> dict[str, Any]:
    """GPUs, driver, NVLink domains, IMEX channel."""
    listed = [line for line in _output("nvidia-smi", "-L").splitlines() if line.startswith("GPU ")]
    devices = [p for p in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", p.name)]
    query = _output(
        "nvidia-smi", "--query-gpu=driver_version,memory.total", "--format=csv,noheader"
    )
    rows = [line.split(", ") for line in query.splitlines() if ", " in line]
    return {
        "gpus": len(listed) or len(devices),
        "driver": rows[0][0] if rows else None,
        "gpu_memory": rows[0][1] if rows else None,
        "nvlink_domains": nvlink_domains(_output("nvidia-smi", "-q")),
        "imex_channel": IMEX_CHANNEL.exists(),
    }


def nvlink_domains(text: str) -> list[str]:
    """Distinct cluster-uuid/clique pairs of `nvidia-smi -q`; empty where there is no fabric."""
    uuids = re.findall(r"ClusterUUID\s*:\s*(\S+)", text)
    cliques = re.findall(r"CliqueId\s*:\s*(\S+)", text)
    pairs = zip(uuids, cliques, strict=False)
    return sorted({f"{uuid}/{clique}" for uuid, clique in pairs if not NO_FABRIC.search(uuid)})


def problems(spec: dict[str, Any], facts: dict[str, Any]) -> Iterator[str]:
    """One sentence for everything that would fail later."""
    yield from port_problems(spec["address"], spec["listeners"])
    yield from _folder_problems(spec, facts)
    for path in spec["paths"]:
        if not Path(path).exists():
            yield f"{path} does not exist here (is it on a shared file system?)"
    for program in spec["executables"]:
        if not shutil.which(program):
            yield f"{program} is not an executable here"
    if spec["needs_gpu"]:
        if facts["gpus"] < spec["gpus"]:
            yield f"{facts['gpus']} GPUs visible, the plan uses {spec['gpus']}"
        if spec["needs_imex"] and not facts["imex_channel"]:
            yield f"{IMEX_CHANNEL} is missing: no KV transfer over NVLink between nodes"
        if len(facts["nvlink_domains"]) > 1:
            yield f"its GPUs belong to several NVLink domains: {', '.join(facts['nvlink_domains'])}"


def port_problems(address: str, listeners: list[dict[str, Any]]) -> Iterator[str]:
    """Whether the address is this node's, and every planned port free on it."""
    try:
        _bind(address, 0)
    except OSError as error:
        yield f"{address} is no address of this node ({error.strerror})"
        return
    for listener in listeners:
        try:
            _bind(address, listener["port"])
        except OSError as error:
            yield (
                f"port {listener['port']} of {listener['owner']} ({listener['what']}) "
                f"is not free on {address}: {error.strerror}"
            )


def _bind(address: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        # As servers do: a connection of an earlier run in TIME_WAIT does not hold a port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(1)


def _folder_problems(spec: dict[str, Any], facts: dict[str, Any]) -> Iterator[str]:
    folder = Path(spec["run_dir"])
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".preflight-"):
            pass
    except OSError as error:
        yield f"run directory {folder} cannot be written from here: {error.strerror}"
    for path, free in facts["free_disk_gb"].items():
        if free < spec["min_free_disk_gb"]:
            yield f"{path} has {free} GB free, {spec['min_free_disk_gb']} GB are asked for"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
