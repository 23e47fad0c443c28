"""The rehearsal engine's command line: `python -m jobs.rehearsal`, a labelled stand-in server."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.flags import merge_flags, render_flags
from launcher.placement import WorkerProcess, address
from launcher.plan import LaunchPlan
from launcher.ports import process_ports
from launcher.schema import LaunchConfig
from launcher.steps import Surroundings

_NUMBER = re.compile(r"\d+(\.\d+)?(e\d+)?")
_FAULT = (
    r"(exit:\d{1,3}@\d+(\.\d+)?|(hang|refuse)@\d+(\.\d+)?|deaf|stuck|noside|freeze@\d+"
    r"|http500@\d+(-\d+)?|(kvfail|badstate)(@\d+)?|flood:\d+(\.\d+)?)"
)
OPTIONS = {
    "fail": re.compile(rf"((prefill|decode|aggregated)/)?{_FAULT}(\+{_FAULT})*"),
    "prefill-tps": _NUMBER,
    "decode-tps": _NUMBER,
    "decode-rank-tps": _NUMBER,
    "decode-kv-tokens": re.compile(r"[1-9]\d*"),
    "decode-max-seqs": re.compile(r"[1-9]\d*"),
    "transfer-mbps": _NUMBER,
    "frontend-ms": _NUMBER,
    "max-model-len": re.compile(r"\d+"),
    "start-s": _NUMBER,
}
"""Options of the stand-in that a configuration may set, and the form of their values."""
FAULTS = (
    "exit:CODE@SECONDS, hang@SECONDS, refuse@SECONDS, deaf, stuck, noside, freeze@REQUEST, "
    "http500@REQUEST, http500@FIRST-LAST, kvfail, kvfail@N, badstate, badstate@N, flood:MB, "
    "several with + between them, and ROLE/ before them for one role only"
)


class RehearsalEngine:
    """Speaks vLLM's HTTP, metrics and prefill/decode protocol; computes nothing."""

    protocol = "vllm"
    rehearsal = True
    owned_flags: frozenset[str] = frozenset()
    owned_env: frozenset[str] = frozenset()

    def worker_argv(
        self, process: WorkerProcess, plan: LaunchPlan, around: Surroundings
    ) -> list[str]:
        """The stand-in's command for one node of an endpoint."""
        config = plan.config
        ports = process_ports(process, config.cluster.ports)
        argv = [around.python, "-m", "jobs.rehearsal", "--role", process.endpoint.role]
        argv += ["--host", address(process.node), "--model", config.model.served_name]
        argv += ["--port", str(ports.http)] if ports.http is not None else ["--headless"]
        argv += ["--dp", str(process.endpoint.dp), "--dp-start", str(process.dp_ranks[0])]
        argv += ["--dp-local", str(len(process.dp_ranks)), "--nixl-base", str(ports.nixl_base)]
        if process.endpoint_nodes > 1:
            argv += ["--rpc-address", address(process.leader_node), "--rpc-port", str(ports.rpc)]
        return argv + render_flags(merge_flags(config.engine.options), off_prefix=None)

    def worker_env(
        self, _: WorkerProcess, plan: LaunchPlan, around: Surroundings
    ) -> dict[str, str]:
        """Only what Python needs to find the checkout, and the site's own variables."""
        return {**around.env, **plan.config.cluster.env}

    def transfers_kv(self, plan: LaunchPlan) -> bool:
        """States cross where prefill and decode are apart."""
        return plan.disaggregated

    def problems(self, config: LaunchConfig) -> Iterator[str]:
        """Options that its own command line would refuse on the nodes."""
        for raw, value in config.engine.options.items():
            name, where = raw.replace("_", "-"), f"engine.options.{raw}={value}"
            form = OPTIONS.get(name)
            if form is None:
                yield f"{where}: no such option; allowed: {', '.join(OPTIONS)}"
            elif value is not None and not form.fullmatch(str(value)):
                yield f"{where}: allowed: {FAULTS if name == 'fail' else 'a number above 0'}"

    def advice(self, _: LaunchConfig) -> Iterator[str]:
        """Nothing to say."""
        yield from ()

    def capacity(self, _: LaunchPlan) -> None:
        """It holds no model."""
        return

    def contained(self) -> bool:
        """It needs the launcher's own Python, not the image."""
        return False
