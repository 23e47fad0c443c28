"""One API server's engine: prefill, transfer and decode on its ranks, at an imitated pace."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from jobs.rehearsal.model import (
    EOS_EVERY,
    Candidate,
    State,
    candidates,
    next_token,
    token_text,
)
from jobs.rehearsal.options import Options
from jobs.rehearsal.ranks import Rank, Stage, Visit, sleep_until, transfer_bytes
from jobs.rehearsal.requests import Ask
from jobs.rehearsal.side_channel import LEASE_S, TransferError, deliver, fetch

BLOCK_TOKENS = 2_128

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Token:
    """One generated token; `finish` is set on the last one. `top` is empty unless asked for."""

    id: int
    text: str
    top: list[Candidate] = field(default_factory=list)
    finish: str | None = None


@dataclass(slots=True)
class Engine:
    """The ranks behind one API server and the transfers seen so far."""

    options: Options
    ranks: list[Rank]
    engine_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    transfers: int = 0
    requests: int = 0

    def is_spoilt(self) -> bool:
        """Whether the request that just came is one that --fail http500 names."""
        wanted = self.options.faults.http500
        return wanted is not None and wanted[0] <= self.requests <= wanted[1]

    def is_frozen(self) -> bool:
        """Whether --fail freeze has begun."""
        first = self.options.faults.freeze_from
        return first is not None and self.requests >= first

    async def read_prompt(self, ask: Ask, visit: Visit) -> State:
        """The state after the whole prompt, computed here or fetched from the prefill rank.

        TransferError when the state cannot be fetched (vLLM's load failure policy "fail").
        """
        if ask.remote_prefill:
            return await self._fetched(ask, visit)
        rank = visit.rank
        computed = len(ask.prompt) - (1 if ask.remote_decode else 0)
        async with rank.reading:
            await visit.allocate()
            await visit.admit()
            await sleep_until(rank.reader.book(computed, self.options.prefill_tps))
        # The next prompt is begun before this request moves on, as in a batch: a rank with requests
        # waiting must never be seen idle.
        await asyncio.sleep(0)
        visit.read()
        rank.counts.local_compute += computed
        return State().after(ask.prompt)

    async def _fetched(self, ask: Ask, visit: Visit) -> State:
        """As vLLM does it: blocks first, then the transfer, then a place in the batch."""
        rank = visit.rank
        visit.enter(Stage.FETCH_WAITING)
        await visit.allocate()
        visit.enter(Stage.FETCHING)
        try:
            state, covered, seconds = await self._fetch(ask, rank)
        except TransferError as error:
            rank.counts.failed_transfers += 1
            log.error("rank %d: transfer failed: %s", rank.number, error)
            raise
        visit.enter(Stage.FETCHED)
        await visit.admit()
        visit.read()
        rank.count_transfer(covered, seconds)
        rank.counts.external_queries += len(ask.prompt)
        rank.counts.external += len(ask.prompt) - 1
        rank.counts.local_compute += 1
        return state.after(ask.prompt[-1:])

    async def _fetch(self, ask: Ask, rank: Rank) -> tuple[State, int, float]:
        self.transfers += 1
        faults = self.options.faults
        host, port = str(ask.kv["remote_host"]), int(ask.kv["remote_port"])
        if faults.kvfail_from is not None and self.transfers >= faults.kvfail_from:
            raise TransferError(f"side channel {host}:{port}: failure asked for by --fail kvfail")
        begun = time.monotonic()
        state, covered = await fetch(host, port, str(ask.kv["remote_request_id"]))
        if faults.badstate_from is not None and self.transfers >= faults.badstate_from:
            state = state.after([0])
        if self.options.transfer_mbps is not None:
            size = transfer_bytes(covered)
            await sleep_until(rank.link.book(size, self.options.transfer_mbps * 1e6))
        return state, covered, time.monotonic() - begun

    async def hand_over(self, ask: Ask, visit: Visit, request_id: str) -> dict[str, Any] | None:
        """kv_transfer_params for decode, once the state of all but the last token is kept."""
        rank = visit.rank
        if not ask.remote_decode or rank.nixl_port is None:
            return None
        covered = len(ask.prompt) - 1
        state = State().after(ask.prompt[:-1])
        internal = f"{request_id}-{uuid.uuid4().hex[:8]}"
        until = time.monotonic() + LEASE_S
        if rank.store is not None:
            until = rank.store.put(internal, state, covered, visit.pin())
        else:
            await deliver(rank.nixl_host, rank.nixl_port, internal, state, covered)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [list(range(1, covered // BLOCK_TOKENS + 2))],
            "remote_engine_id": f"{self.engine_id}_dp{rank.number}",
            "remote_request_id": internal,
            "remote_host": rank.nixl_host,
            "remote_port": rank.nixl_port,
            "tp_size": 1,
            "dcp_size": 1,
            "pp_size": 1,
            "remote_num_tokens": covered,
            "remote_blocks_expiry_time": until,
            "transfer_mode": "pull",
        }

    async def answer(self, ask: Ask, rank: Rank, state: State) -> AsyncIterator[list[Token]]:
        """The generated tokens in batches, at `decode_tps` per stream; a late loop catches up."""
        last, progress, made = time.monotonic(), 0.0, 0
        while True:
            if self.is_frozen():
                await asyncio.Event().wait()
            now, pace = time.monotonic(), self._pace(rank)
            progress, last = progress + (now - last) * pace, now
            batch: list[Token] = []
            while made < min(int(progress) + 1, ask.max_tokens) and not (
                batch and batch[-1].finish
            ):
                token = _generate(ask, state, made)
                state = state.after((token.id,))
                made += 1
                batch.append(token)
            rank.counts.generation += len(batch)
            yield batch
            if batch and batch[-1].finish:
                return
            await asyncio.sleep(max((made - progress) / pace, 0.0))

    def _pace(self, rank: Rank) -> float:
        """Tokens per second of one stream now: its own pace, or its share of the rank's."""
        own, whole = self.options.decode_tps, self.options.decode_rank_tps
        return own if whole is None else min(own, whole / max(1, rank.running))


def _generate(ask: Ask, state: State, made: int) -> Token:
    """The token number `made` (from 0) of the answer."""
    top = candidates(state, ask.salt) if ask.logprobs is not None else []
    chosen = top[0][0] if top else next_token(state, ask.salt)
    token = Token(chosen, token_text(chosen), top)
    ended = not ask.ignore_eos and chosen % EOS_EVERY == 0 and made + 1 > ask.min_tokens
    if ended:
        token.finish, token.text = "stop", ""
    elif made + 1 == ask.max_tokens:
        token.finish = "length"
    return token
