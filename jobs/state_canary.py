"""The canary's state check: prompts answered plainly, through a pair, and on a foreign state."""

from __future__ import annotations

import random
import uuid
from typing import Any

from jobs.engines.dialect import Answer
from jobs.events import Journal
from jobs.pairs import (
    PairError,
    Rank,
    ask_decode,
    ask_plain,
    ask_prefill,
    grown,
    rank_counters,
    ranks_of,
    telling_prompt,
    transferred,
)
from jobs.rendezvous import Deployment
from jobs.state_check import (
    check_control,
    check_exact,
    check_first,
    control_power,
    judge_band,
    logit_ulp,
)


async def check_state(
    deployment: Deployment, report: dict[str, Any], rng: random.Random, journal: Journal
) -> None:
    """The state check on `prompts` prompts, one request at a time, spread over the pairs."""
    plan = deployment.plan.canary
    prefill, decode = ranks_of(deployment, "prefill"), ranks_of(deployment, "decode")
    references: list[Answer] = []
    for number in range(plan.prompts):
        pair = (prefill[number % len(prefill)], decode[number % len(decode)])
        prompt = telling_prompt(deployment, plan.prompt_tokens, rng)
        entry, reference = await _one_prompt(deployment, pair, prompt, rng)
        references.append(reference)
        report["prompts"].append({"prompt": number, **entry})
    passed, text = _judge(deployment, report, references)
    missed = sum(not entry["control"]["detects"] for entry in report["prompts"])
    void = not control_power(report["prompts"], plan.form == "exact")
    report["verdict"] = "void" if void and passed else "passed" if passed else "failed"
    report["state"] = text
    if not passed:
        raise PairError(f"the transferred state is wrong ({plan.form} form): {text}")
    if void:
        journal.warn(
            "canary_void",
            f"the canary is void: another prompt's state went unnoticed in {missed} of "
            f"{plan.prompts} controls, so equal answers prove nothing with these weights ({text})",
        )
    else:
        journal.note("state", f"the transferred state is right ({plan.form} form): {text}")


async def _one_prompt(
    deployment: Deployment, pair: tuple[Rank, Rank], prompt: list[int], rng: random.Random
) -> tuple[dict[str, Any], Answer]:
    """One prompt's numbers: plain on decode, through the pair, and with a foreign state."""
    plan = deployment.plan.canary
    exact = plan.form == "exact"
    reference = await ask_plain(deployment, pair[1], prompt, plan.tokens + 1)
    _need_candidates(reference, pair[1])
    asked = [*prompt, reference.token_ids[0]] if exact else prompt
    before = await rank_counters(deployment, pair[1])
    answer = await transferred(deployment, pair, asked, plan.tokens)
    _need_candidates(answer, pair[1])
    change = await grown(deployment, pair[1], before, len(asked) - 1)
    external = change.external_tokens or 0
    if external < len(asked) - 1:
        raise PairError(
            f"{pair[1]} took {external:.0f} of {len(asked) - 1} tokens from the transfer: "
            "it answered from its own prefix cache, or computed the prompt itself"
        )
    wrong = await _foreign(deployment, pair, asked, rng)
    _need_candidates(wrong, pair[1])
    entry = {
        "prefill": str(pair[0]),
        "decode": str(pair[1]),
        **(check_exact(reference, answer) if exact else check_first(reference, answer)),
        "control": check_control(answer.tops[0], wrong.tops[0], exact),
    }
    return entry, reference


async def _foreign(
    deployment: Deployment, pair: tuple[Rank, Rank], prompt: list[int], rng: random.Random
) -> Answer:
    """Negative control: `prompt` answered on another prompt's state of the same length."""
    other = [*telling_prompt(deployment, len(prompt) - 1, rng), prompt[-1]]
    request_id = f"canary-control-{uuid.uuid4().hex}"
    transfer = await ask_prefill(deployment, pair[0], other, request_id)
    return await ask_decode(deployment, pair[1], prompt, 1, transfer, request_id)


def _need_candidates(answer: Answer, rank: Rank) -> None:
    if not answer.token_ids or not answer.tops or len(answer.tops[0]) < 2:
        raise PairError(f"{rank} answered without token ids or log probabilities: cannot compare")


def _judge(
    deployment: Deployment, report: dict[str, Any], references: list[Answer]
) -> tuple[bool, str]:
    """Whether the state is right, and the numbers in words."""
    prompts = report["prompts"]
    if deployment.plan.canary.form == "band":
        report["ulp"] = logit_ulp([reference.tops[0] for reference in references])
        return judge_band(prompts, report["ulp"])
    good = [entry for entry in prompts if entry["passed"]]
    tokens = sum(entry["equal"] for entry in prompts)
    worst = max((entry["max_delta"] for entry in prompts), default=0.0)
    ties = sum(entry["tie"] for entry in prompts)
    asked = sum(entry["tokens"] for entry in prompts)
    text = (
        f"{len(good)} of {len(prompts)} prompts and {tokens} of {asked} tokens equal, "
        f"max delta {worst:.3g}, {ties} ties"
    )
    return len(good) == len(prompts) and bool(prompts), text
