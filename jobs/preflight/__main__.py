"""Looks at the node it runs on and prints one report; SPEC is base64 of a JSON object.

Nothing travels through the run directory, which may be what is wrong: the question is an argument,
the answer is a line of standard output. Each check is named before it begins, so that the log of a
node that gives no answer tells where it hangs.
"""

from __future__ import annotations

import binascii
import json
import os
import socket
import sys
import time
from collections.abc import Iterable
from typing import Any

from jobs.preflight import gpus, host, model, network, storage, versions
from jobs.preflight.finding import Found, failed, passed, skipped

REPORT = "PREFLIGHT-REPORT "
BEGINS = "checking "
TOPOLOGY = ("SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN")


def main(arguments: list[str]) -> int:
    """Prints the report; 0 even with problems, since the report has them."""
    began = time.time()
    spec = json.loads(binascii.a2b_base64(arguments[0]))
    facts: dict[str, Any] = {"host": socket.gethostname(), "python": sys.version.split()[0]}
    found = inside(spec, facts) if spec["inside"] else outside(spec, facts)
    report = {"node": spec["node"], "found": found, "facts": facts}
    # The last thing before the answer: the driver compares both with its own clock.
    report["clock"] = [began, time.time()]
    sys.stdout.write(f"\n{REPORT}{json.dumps(report)}\n")
    sys.stdout.flush()
    return 0


def outside(spec: dict[str, Any], facts: dict[str, Any]) -> list[Found]:
    """Every check of the node itself."""
    facts |= host.host_facts()
    facts |= {name.lower(): os.environ[name] for name in TOPOLOGY if name in os.environ}
    found: list[Found] = []
    _check(found, "network", network.network_checks(spec))
    text = None
    if spec["needs_gpu"]:
        _say("nvidia-smi")
        text = gpus.ask_nvidia_smi()
        facts |= gpus.gpu_facts(text)
    _check(found, "GPUs", gpus.gpu_checks(spec, text))
    _check(found, "host", host.host_checks(spec, facts))
    _check(found, "shared directory and disks", storage.storage_checks(spec))
    _check(found, "model files", model.model_checks(spec, facts))
    _check(found, "engine", engine_check(spec, facts))
    return found


def inside(spec: dict[str, Any], facts: dict[str, Any]) -> list[Found]:
    """What only the container can tell: the engine's packages, devices, the mounted model."""
    found: list[Found] = []
    facts["engine"] = versions.installed()
    found.append(passed("engine", facts["engine"].get("vllm", "no vllm")))
    if spec["needs_gpu"]:
        devices = gpus.gpu_facts(None)
        if devices["gpus"] < spec["gpus"]:
            found.append(failed("GPUs", f"{devices['gpus']} visible", spec["gpus"]))
        if spec["needs_imex"]:
            found.append(gpus.imex_check(devices["imex_channels"]))
    _check(found, "model files", model.model_checks(spec, {}))
    return found


def engine_check(spec: dict[str, Any], facts: dict[str, Any]) -> Iterable[Found]:
    """Asks the engine's own Python what is installed."""
    python = spec["engine_python"]
    if not python:
        return [skipped("engine", spec["engine_skipped"])]
    answer = versions.ask(python)
    if isinstance(answer, str):
        return [failed("engine", answer, "a Python that tells its packages")]
    facts["engine"] = answer
    return [passed("engine", answer.get("vllm", "no vllm"))]


def _check(found: list[Found], name: str, checks: Iterable[Found]) -> None:
    _say(name)
    found += checks


def _say(name: str) -> None:
    sys.stdout.write(f"{BEGINS}{name}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
