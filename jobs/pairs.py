"""Every prefill rank with every decode rank: one fresh prompt each, proved by decode's counters."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from jobs.counters import moved, scrape
from jobs.engines.dialect import Answer, EngineCounters
from jobs.probing import AskError
from jobs.rendezvous import Deployment
from jobs.run_spec import Worker

REQUEST_S = 300.0
COUNTERS_S = 10.0
"""A transfer's byte count reaches /metrics with a later engine step."""

T = TypeVar("T")


class PairError(Exception):
    """A pair whose transfer failed or was not proved; the text is the evidence."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank, as requests reach it: place `index` of the `served` behind a worker's URL."""

    worker: Worker
    index: int
    served: int

    def __str__(self) -> str:
        return f"{self.worker.name} rank {self.index}" if self.served > 1 else self.worker.name


def ranks_of(deployment: Deployment, role: str) -> list[Rank]:
    """All ranks of a role that can be addressed."""
    return [
        Rank(worker, index, deployment.plan.ranks_behind(worker))
        for worker in deployment.plan.with_role(role)
        if worker.url
        for index in range(deployment.plan.ranks_behind(worker))
    ]


def rounds(prefill: Sequence[T], decode: Sequence[T]) -> Iterator[list[tuple[T, T]]]:
    """All pairs, in rounds in which no rank appears twice (so that counters tell pairs apart)."""
    wide = max(len(prefill), len(decode))
    for turn in range(wide):
        yield [
            (prefill[(place + turn) % len(prefill)], decode[place])
            if len(prefill) >= len(decode)
            else (prefill[place], decode[(place + turn) % len(decode)])
            for place in range(min(len(prefill), len(decode)))
        ]


def random_prompt(deployment: Deployment, length: int, rng: random.Random) -> list[int]:
    """Token ids that no one has sent before; special tokens at both ends of a vocabulary spared."""
    top = max(40, int(0.9 * (deployment.plan.vocab_size or 2000)))
    return [rng.randrange(20, top) for _ in range(length)]


def telling_prompt(deployment: Deployment, length: int, rng: random.Random) -> list[int]:
    """A fresh random block and its beginning again, `length` tokens in all.

    After plain random tokens a trained model answers every prompt alike, and a foreign state goes
    unnoticed; a repeated block has one likely next token, which only its own state knows.
    """
    block = random_prompt(deployment, length - length // 3, rng)
    return (block + block)[:length]


async def ask_plain(
    deployment: Deployment, rank: Rank, prompt: Sequence[int], tokens: int
) -> Answer:
    """A rank's own answer, nothing transferred."""
    dialect = deployment.dialect
    body = dialect.plain(deployment.plan.served_model, prompt, tokens)
    return dialect.read_answer(await _post(deployment, rank, body, {}))


async def ask_prefill(
    deployment: Deployment, rank: Rank, prompt: Sequence[int], request_id: str
) -> dict[str, Any]:
    """What prefill hands over for `prompt`; PairError when decode could not use it."""
    dialect = deployment.dialect
    body = dialect.prefill(deployment.plan.served_model, prompt)
    payload = await _post(deployment, rank, body, {"X-Request-Id": request_id})
    transfer = dialect.read_answer(payload).transfer
    problem = dialect.transfer_problem(transfer)
    if problem or transfer is None:
        raise PairError(f"{rank}: {problem}")
    return transfer


async def ask_decode(
    deployment: Deployment,
    rank: Rank,
    prompt: Sequence[int],
    tokens: int,
    transfer: dict[str, Any],
    request_id: str,
) -> Answer:
    """Decode's answer to `prompt` on the transferred state."""
    dialect = deployment.dialect
    body = dialect.decode(deployment.plan.served_model, prompt, tokens, transfer)
    return dialect.read_answer(await _post(deployment, rank, body, {"X-Request-Id": request_id}))


async def transferred(
    deployment: Deployment, pair: tuple[Rank, Rank], prompt: Sequence[int], tokens: int
) -> Answer:
    """The answer through a pair, prefill then decode."""
    request_id = f"canary-{uuid.uuid4().hex}"
    transfer = await ask_prefill(deployment, pair[0], prompt, request_id)
    return await ask_decode(deployment, pair[1], prompt, tokens, transfer, request_id)


async def _post(
    deployment: Deployment, rank: Rank, body: dict[str, Any], headers: dict[str, str]
) -> Any:
    dialect = deployment.dialect
    url = deployment.url(rank.worker) + dialect.completions_path
    pinned = dialect.rank_headers(rank.index, rank.served)
    return await deployment.http.post(url, body, REQUEST_S, {**headers, **pinned})


async def rank_counters(deployment: Deployment, rank: Rank) -> EngineCounters:
    """One rank's counters: its engine is the label at its place."""
    samples = await scrape(deployment, rank.worker)
    engines = deployment.dialect.engines(samples)
    return deployment.dialect.counters(samples, engines[rank.index])


async def grown(
    deployment: Deployment, rank: Rank, before: EngineCounters, expected: int
) -> EngineCounters:
    """What a decode rank's counters moved by, once `expected` tokens and any bytes show."""
    until = time.monotonic() + COUNTERS_S
    while True:
        change = moved(before, await rank_counters(deployment, rank))
        if _crossed(change, expected) or time.monotonic() > until:
            return change
        await asyncio.sleep(0.2)


def _crossed(change: EngineCounters, expected: int) -> bool:
    return (change.external_tokens or 0) >= expected and (change.kv_bytes or 0) > 0


async def prove_pair(
    deployment: Deployment, pair: tuple[Rank, Rank], prompts: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """Sends prompts through a pair and shows that they crossed; PairError with the counters."""
    before = await rank_counters(deployment, pair[1])
    begun = time.monotonic()
    for prompt in prompts:
        answer = await transferred(deployment, pair, prompt, 1)
        if not answer.token_ids:
            raise PairError(f"{pair[0]} -> {pair[1]}: answered without a token")
    took = time.monotonic() - begun
    expected = sum(len(prompt) - 1 for prompt in prompts)
    change = await grown(deployment, pair[1], before, expected)
    crossed = _crossed(change, expected)
    seen = {
        "prefill": str(pair[0]),
        "decode": str(pair[1]),
        "expected_tokens": expected,
        "external_tokens": change.external_tokens,
        "local_tokens": change.local_tokens,
        "kv_bytes": change.kv_bytes,
        "kv_failed": change.kv_failed,
        "took_s": round(took, 3),
    }
    if not crossed or (change.kv_failed or 0) > 0:
        raise PairError(
            f"{pair[0]} -> {pair[1]}: the answer came, but decode's counters say {seen}"
        )
    return seen


async def prove_pair_with_retry(
    deployment: Deployment, pair: tuple[Rank, Rank], prompts: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """As `prove_pair`; a failed first contact gets one more attempt, and the record says so."""
    try:
        return await prove_pair(deployment, pair, prompts)
    except (AskError, PairError, ValueError) as error:
        if not (
            isinstance(error, AskError) and deployment.dialect.is_first_contact_failure(str(error))
        ):
            raise PairError(f"{pair[0]} -> {pair[1]}: {error}") from error
        first = str(error)
    try:
        return {**await prove_pair(deployment, pair, prompts), "first_attempt": first[:500]}
    except (AskError, PairError, ValueError) as error:
        raise PairError(f"{pair[0]} -> {pair[1]}, second attempt: {error}") from error
