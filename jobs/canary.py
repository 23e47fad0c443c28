"""Before anything is measured: KV really crosses between all pairs, and the state is right."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from jobs.counters import moved, snapshot, total
from jobs.errors import JobError
from jobs.events import Journal
from jobs.pairs import (
    COUNTERS_S,
    REQUEST_S,
    PairError,
    prove_pair_with_retry,
    random_prompt,
    ranks_of,
    rounds,
)
from jobs.probing import AskError
from jobs.rendezvous import Deployment
from jobs.state_canary import check_state
from jobs.store import RunDir, write_json


class CanaryError(JobError):
    """KV does not cross, or arrives wrong; the text is the evidence."""


async def run_canary(deployment: Deployment, run_dir: RunDir, journal: Journal) -> dict[str, Any]:
    """canary.json: verdict passed | void | skipped; CanaryError (and verdict failed) otherwise."""
    plan = deployment.plan.canary
    report: dict[str, Any] = {"verdict": "skipped", "form": plan.form, "pairs": [], "prompts": []}
    if not plan.enabled or not ranks_of(deployment, "prefill"):
        report["why"] = "switched off" if not plan.enabled else "nothing is transferred"
        write_json(run_dir.canary, report)
        return report
    rng = random.SystemRandom()
    report["verdict"] = "failed"
    try:
        async with asyncio.timeout(deployment.plan.budgets.canary_s):
            await _pairs(deployment, report, rng, journal)
            await check_state(deployment, report, rng, journal)
            await _router(deployment, report, rng, journal)
    except (PairError, AskError, ValueError) as error:
        report["why"] = str(error)
        raise CanaryError(f"canary: {error}; see {run_dir.canary}") from error
    except TimeoutError:
        report["why"] = (
            f"not done within budgets.canary_s = {deployment.plan.budgets.canary_s:.0f} s"
        )
        raise CanaryError(f"canary: {report['why']}; see {run_dir.canary}") from None
    finally:
        write_json(run_dir.canary, report)
    return report


async def _pairs(
    deployment: Deployment, report: dict[str, Any], rng: random.Random, journal: Journal
) -> None:
    """All pairs, round by round; all failures of a round together."""
    plan = deployment.plan.canary
    prefill, decode = ranks_of(deployment, "prefill"), ranks_of(deployment, "decode")
    for turn in rounds(prefill, decode):
        jobs = []
        for pair in turn:
            prompts = [
                random_prompt(deployment, plan.prompt_tokens, rng)
                for _ in range(max(1, plan.pair_prompts))
            ]
            jobs.append(prove_pair_with_retry(deployment, pair, prompts))
        results = await asyncio.gather(*jobs, return_exceptions=True)
        for result in results:
            if isinstance(result, dict):
                report["pairs"].append(result)
                if "first_attempt" in result:
                    pair_text = f"{result['prefill']} -> {result['decode']}"
                    journal.warn("retried", f"{pair_text}: first contact failed, then worked")
        failed = [result for result in results if isinstance(result, BaseException)]
        for error in failed:
            if not isinstance(error, PairError):
                raise error
        if failed:
            raise PairError("; ".join(str(error) for error in failed))
    count = len(report["pairs"])
    journal.note("pairs", f"KV crossed in all {count} prefill-decode pairs", pairs=count)


async def _router(
    deployment: Deployment, report: dict[str, Any], rng: random.Random, journal: Journal
) -> None:
    """One request as clients send it; decode's counters must show that it was transferred."""
    dialect, plan = deployment.dialect, deployment.plan
    prompt = random_prompt(deployment, plan.canary.prompt_tokens, rng)
    before = await snapshot(deployment, journal)
    body = dialect.plain(plan.served_model, prompt, 2)
    url = deployment.base_url + dialect.completions_path
    dialect.read_answer(await deployment.http.post(url, body, REQUEST_S))
    grown = 0.0
    for _ in range(int(COUNTERS_S / 0.5)):
        after = await snapshot(deployment, journal)
        changes = [
            moved(before[w.name], after[w.name])
            for w in plan.with_role("decode")
            if w.name in before and w.name in after
        ]
        grown = total(changes, "external_tokens") or 0.0
        if grown >= len(prompt) - 1:
            break
        await asyncio.sleep(0.5)
    report["router"] = {"url": url, "external_tokens": grown, "expected_tokens": len(prompt) - 1}
    if grown < len(prompt) - 1:
        report["verdict"] = "failed"
        raise PairError(
            f"the router at {deployment.base_url} answered, but only {grown:.0f} of "
            f"{len(prompt) - 1} tokens were transferred: it does not pair prefill and decode"
        )
    journal.note(
        "router_path", "a request through the router was transferred from prefill to decode"
    )
