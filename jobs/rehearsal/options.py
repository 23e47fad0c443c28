"""The command line of the rehearsal engine."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jobs.rehearsal.faults import ALLOWED, FaultError, Faults, parse_fault

SIDE_CHANNEL_HOST_VARIABLE = "VLLM_NIXL_SIDE_CHANNEL_HOST"
API_KEY_VARIABLE = "VLLM_API_KEY"
KV_TOKENS = 8_000_000
MAX_SEQS = 1024
"""Of one rank, about what the published decode has (FP8 KV on GB200)."""

ABOVE_0 = (
    *("prefill_tps", "decode_tps", "decode_rank_tps"),
    *("decode_kv_tokens", "decode_max_seqs", "transfer_mbps"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One process of the rehearsal engine.

    `dp_start` is the first global rank here and `dp_local` how many ranks are here, of `dp` in
    the endpoint. `prefill_tps` is a rank's prompt tokens per second, `decode_tps` one stream's
    tokens per second, `decode_rank_tps` all streams of a rank together. `decode_kv_tokens` is the
    room for KV of a rank that decodes, `decode_max_seqs` how many requests it runs at once;
    `transfer_mbps` is the link on which it fetches states. `frontend_ms` is what the HTTP process
    computes per request before an engine sees it. `rpc_port` joins the processes of one endpoint:
    with it the leader serves all `dp` ranks, without it each process serves its own.
    """

    role: str
    host: str
    port: int
    model: str
    dp: int = 1
    dp_start: int = 0
    dp_local: int = 1
    nixl_base: int | None = None
    nixl_host: str = "127.0.0.1"
    headless: bool = False
    rpc_address: str | None = None
    rpc_port: int | None = None
    prefill_tps: float = 2_000_000.0
    decode_tps: float = 1_000.0
    decode_rank_tps: float | None = None
    decode_kv_tokens: int = KV_TOKENS
    decode_max_seqs: int = MAX_SEQS
    transfer_mbps: float | None = None
    frontend_ms: float = 0.0
    max_model_len: int = 262_144
    start_s: float = 0.0
    api_key: str | None = None
    faults: Faults = field(default_factory=Faults)

    @property
    def kv_tokens(self) -> int:
        """Room for KV in one rank of this process, tokens."""
        return KV_TOKENS if self.role == "prefill" else self.decode_kv_tokens

    @property
    def max_seqs(self) -> int:
        """Requests that one rank of this process runs at once."""
        return MAX_SEQS if self.role == "prefill" else self.decode_max_seqs

    @property
    def local_ranks(self) -> range:
        """Global ranks in this process."""
        return range(self.dp_start, self.dp_start + self.dp_local)


def build_parser() -> argparse.ArgumentParser:
    """The parser of `python -m jobs.rehearsal`."""
    parser = argparse.ArgumentParser(
        prog="python -m jobs.rehearsal",
        description="A stand-in server that speaks vLLM's protocol: no model, no results.",
    )
    add = parser.add_argument
    add("--role", choices=["prefill", "decode", "aggregated"], required=True)
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=8000)
    add("--model", default="rehearsal", help="the served model's name")
    add("--dp", type=int, default=1, help="data parallel ranks of the whole endpoint")
    add("--dp-start", type=int, default=0, help="first global rank of this process")
    add("--dp-local", type=int, help="ranks of this process (default: all from --dp-start on)")
    add("--nixl-base", type=int, help="side channel port of rank 0; rank r listens on base + r")
    add("--headless", action="store_true", help="side channels only, no HTTP")
    add("--rpc-address", help="leader's address, to join the processes of one endpoint")
    add("--rpc-port", type=int, help="leader's port for joining; without it nobody waits")
    add("--prefill-tps", type=float, default=2_000_000.0, help="prompt tokens/s of one rank")
    add("--decode-tps", type=float, default=1_000.0, help="tokens/s of one stream")
    add("--decode-rank-tps", type=float, help="tokens/s of one rank; default: no limit")
    add("--decode-kv-tokens", type=int, default=KV_TOKENS, help="KV of one decoding rank, tokens")
    add("--decode-max-seqs", type=int, default=MAX_SEQS, help="requests a decoding rank runs")
    add("--transfer-mbps", type=float, help="MB/s at which a rank fetches; default: no limit")
    add("--frontend-ms", type=float, default=0.0, help="computing per request, in the HTTP process")
    add("--max-model-len", type=int, default=262_144)
    add("--start-s", type=float, default=0.0, help="seconds the imitated load takes")
    add("--fail", help=f"a fault: {ALLOWED}")
    return parser


def parse_options(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Options from the command line and the two variables vLLM reads too; exits 2 with the reason.

    VLLM_API_KEY is the key asked for on /v1/*; VLLM_NIXL_SIDE_CHANNEL_HOST the side channel's
    address (default: --host).
    """
    parser = build_parser()
    given = parser.parse_args(arguments)
    local = given.dp - given.dp_start if given.dp_local is None else given.dp_local
    if not (given.dp_start >= 0 and local >= 1 and given.dp_start + local <= given.dp):
        parser.error(
            f"ranks {given.dp_start}..{given.dp_start + local - 1} do not fit "
            f"into --dp {given.dp}: need 0 <= --dp-start and --dp-start + --dp-local <= --dp"
        )
    for name in ABOVE_0:
        value = getattr(given, name)
        if value is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')} must be above 0")
    try:
        faults = parse_fault(given.fail, given.role)
    except FaultError as error:
        parser.error(str(error))
    return Options(
        role=given.role,
        host=given.host,
        port=given.port,
        model=given.model,
        dp=given.dp,
        dp_start=given.dp_start,
        dp_local=local,
        nixl_base=given.nixl_base,
        nixl_host=environ.get(SIDE_CHANNEL_HOST_VARIABLE) or given.host,
        headless=given.headless,
        rpc_address=given.rpc_address,
        rpc_port=given.rpc_port,
        prefill_tps=given.prefill_tps,
        decode_tps=given.decode_tps,
        decode_rank_tps=given.decode_rank_tps,
        decode_kv_tokens=given.decode_kv_tokens,
        decode_max_seqs=given.decode_max_seqs,
        transfer_mbps=given.transfer_mbps,
        frontend_ms=given.frontend_ms,
        max_model_len=given.max_model_len,
        start_s=given.start_s,
        api_key=environ.get(API_KEY_VARIABLE) or None,
        faults=faults,
    )
