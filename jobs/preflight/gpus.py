"""GPUs, fabric and IMEX channel of this node, from one `nvidia-smi -q` and /dev."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs.preflight.finding import Found, failed, passed, skipped, warned

CHANNELS = Path("/dev/nvidia-caps-imex-channels")
ASK_S = 30
LINE = re.compile(r"^( *)(\S.*?)(?: +: (.*))?$")
NOT_TOLD = ("", "N/A", "Not Supported", "[N/A]")
NO_CLUSTER = re.compile(r"^[0-]*$")

Fields = list[tuple[tuple[str, ...], str]]
"""(path of headings, value), in the order of the text; a process repeats its paths."""


def ask_nvidia_smi() -> str | None:
    """What `nvidia-smi -q` prints; None where it is missing, fails or gives no answer."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "-q"], capture_output=True, text=True, timeout=ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 and "Driver Version" in done.stdout else None


def parse(text: str) -> dict[str, Any]:
    """Driver, CUDA and every GPU of `nvidia-smi -q` (text form as of driver 580)."""
    head, *parts = re.split(r"^GPU (?=[0-9A-Fa-f]+:)", text, flags=re.MULTILINE)
    fields = dict(_fields(head))
    return {
        "driver": fields.get(("Driver Version",)),
        "cuda": fields.get(("CUDA Version",)),
        "gpus": [_gpu(part) for part in parts],
    }


def _fields(text: str) -> Fields:
    """Indented `name : value` lines with the headings above them."""
    found: Fields = []
    stack: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = LINE.match(line.rstrip())
        if not match:
            continue
        depth, name, value = len(match[1]), match[2], match[3]
        while stack and stack[-1][0] >= depth:
            stack.pop()
        stack.append((depth, name))
        if value is not None:
            found.append((tuple(entry[1] for entry in stack), value.strip()))
    return found


def _gpu(text: str) -> dict[str, Any]:
    """One GPU's part. `domain` is cluster UUID / clique where the fabric tells both."""
    bus, _, rest = text.partition("\n")
    found = _fields(rest)
    fields = dict(found)

    def get(*path: str) -> str:
        return fields.get(path, "")

    cluster, clique = get("Fabric", "ClusterUUID"), get("Fabric", "CliqueId")
    told = cluster not in NOT_TOLD and clique not in NOT_TOLD and not NO_CLUSTER.match(cluster)
    volatile = [v for p, v in found if p[:2] == ("ECC Errors", "Volatile") and "Uncorr" in p[-1]]
    return {
        "bus": bus.strip(),
        "product": get("Product Name"),
        "uuid": get("GPU UUID"),
        "memory_mib": _mib(get("FB Memory Usage", "Total")),
        "used_mib": _mib(get("FB Memory Usage", "Used")),
        "mig": get("MIG Mode", "Current"),
        "recovery": get("GPU Recovery Action"),
        "uncorrectable": sum(int(value) for value in volatile if value.isdigit()),
        "remap_pending": get("Remapped Rows", "Pending"),
        "remap_failed": get("Remapped Rows", "Remapping Failure Occurred"),
        "fabric_state": get("Fabric", "State"),
        "fabric_status": get("Fabric", "Status"),
        "fabric_health": get("Fabric", "Health", "Summary"),
        "domain": f"{cluster}/{clique}" if told else None,
        "pids": [value for path, value in found if path == ("Processes", "Process ID")],
    }


def _mib(text: str) -> int | None:
    number = text.partition(" ")[0]
    return int(number) if number.isdigit() else None


def gpu_facts(text: str | None) -> dict[str, Any]:
    """What the records keep of the GPUs, problem or not."""
    seen = parse(text) if text else {"driver": None, "cuda": None, "gpus": []}
    return {
        "driver": seen["driver"],
        "cuda": seen["cuda"],
        "gpus": len(seen["gpus"]) if text else len(_devices()),
        "gpu_products": sorted({gpu["product"] for gpu in seen["gpus"] if gpu["product"]}),
        "gpu_memory_mib": [gpu["memory_mib"] for gpu in seen["gpus"]],
        "nvlink_domains": sorted({gpu["domain"] for gpu in seen["gpus"] if gpu["domain"]}),
        "imex_channels": _channels(),
    }


def _devices() -> list[str]:
    return [p.name for p in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", p.name)]


def _channels() -> list[str]:
    if not CHANNELS.is_dir():
        return []
    return sorted(entry.name for entry in CHANNELS.iterdir() if entry.name.startswith("channel"))


def gpu_checks(spec: dict[str, Any], text: str | None) -> Iterator[Found]:
    """Enough GPUs, idle and healthy, on a fabric that is up, with an IMEX channel."""
    if not spec["needs_gpu"]:
        yield skipped("GPUs", "the engine runs on no GPU: nvidia-smi is not asked")
        return
    facts = gpu_facts(text)
    if facts["gpus"] < spec["gpus"]:
        yield failed("GPUs", f"{facts['gpus']} visible", f"{spec['gpus']}")
    else:
        yield passed("GPUs", f"{facts['gpus']} visible", f"{spec['gpus']}")
    if spec["needs_imex"]:
        yield imex_check(facts["imex_channels"])
    if text is None:
        yield skipped("GPUs idle", "nvidia-smi -q gives no answer here")
        return
    gpus = parse(text)["gpus"]
    yield _verdict("GPUs idle", [_busy(gpu, spec["max_gpu_used_gb"]) for gpu in gpus], "idle")
    yield _verdict("GPU health", [_sick(gpu) for gpu in gpus], "no error that asks for a reset")
    if spec["needs_imex"]:
        yield from fabric_checks(gpus)


def imex_check(channels: list[str]) -> Found:
    """A channel device, without which CUDA maps no memory of another node's GPU.

    (CUDA_ERROR_NOT_PERMITTED.) Slurm's switch/nvidia_imex gives each job another number, so any
    will do.
    """
    if not channels:
        return failed("IMEX channel", f"none in {CHANNELS}", "a channel device")
    return passed("IMEX channel", ", ".join(channels[:3]))


def fabric_checks(gpus: list[dict[str, Any]]) -> Iterator[Found]:
    """State Completed and status Success on every GPU, and one domain for all of the node's."""
    if all(gpu["fabric_state"] in NOT_TOLD for gpu in gpus):
        yield skipped("NVLink fabric", "nvidia-smi reports none")
        return
    yield _verdict("NVLink fabric", [_off_fabric(gpu) for gpu in gpus], "Completed, Success")
    limited = [gpu["bus"] for gpu in gpus if gpu["fabric_health"].startswith("Limited")]
    if limited:
        yield warned("NVLink health", f"Limited Capacity on {', '.join(limited)}", "Healthy")
    domains = sorted({gpu["domain"] for gpu in gpus if gpu["domain"]})
    if len(domains) > 1:
        yield failed("NVLink domain", f"several: {', '.join(domains)}", "one for all its GPUs")


def _verdict(check: str, troubles: list[str | None], wanted: str) -> Found:
    told = [text for text in troubles if text]
    return failed(check, "; ".join(told), wanted) if told else passed(check, wanted)


def _busy(gpu: dict[str, Any], most_gb: float) -> str | None:
    used = (gpu["used_mib"] or 0) * 2**20 / 1e9
    if gpu["pids"]:
        return f"{gpu['bus']}: {used:.1f} GB used by pid {', '.join(gpu['pids'])}"
    return f"{gpu['bus']}: {used:.1f} GB used" if used > most_gb else None


def _sick(gpu: dict[str, Any]) -> str | None:
    """What the driver itself says needs a reset or a repair, or would spoil results."""
    told = []
    if gpu["recovery"] not in (*NOT_TOLD, "None"):
        told.append(f"recovery action {gpu['recovery']}")
    if gpu["uncorrectable"]:
        told.append(f"{gpu['uncorrectable']} uncorrectable ECC errors since it was reset")
    if gpu["remap_failed"] == "Yes" or gpu["remap_pending"] == "Yes":
        told.append("row remapping " + ("failed" if gpu["remap_failed"] == "Yes" else "pending"))
    if gpu["mig"] == "Enabled":
        told.append("MIG is on")
    return f"{gpu['bus']}: {', '.join(told)}" if told else None


def _off_fabric(gpu: dict[str, Any]) -> str | None:
    state, status = gpu["fabric_state"], gpu["fabric_status"]
    if gpu["fabric_health"] == "Unhealthy":
        return f"{gpu['bus']}: Unhealthy"
    if state == "Completed" and status == "Success":
        return None
    return f"{gpu['bus']}: {state}, {status}"
