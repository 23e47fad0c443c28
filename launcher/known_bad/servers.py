"""What an engine answers with: API servers, stats lines, the pieces a stream comes in."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.known_bad.entry import KnownBad
from launcher.known_bad.view import RoleView, View


def _servers(role: RoleView) -> int:
    return role.number("api-server-count") or 0


def _headless_servers(view: View) -> Iterator[str]:
    for role in view.headless():
        if _servers(role) > 0:
            yield (
                f"{role.at('api-server-count')}: the nodes of {role.name} that do not lead are "
                "headless and refuse it"
            )


def _many_servers(view: View) -> Iterator[str]:
    for role in view.roles.values():
        if _servers(role) > 1:
            yield f"{role.at('api-server-count')}: more than one disables the engines' stats lines"
            return


def _stats_off(view: View) -> Iterator[str]:
    for role in view.pair or ():
        if role.flags.get("disable-log-stats") is True and role.shape.dp > 1:
            yield (
                f"{role.at('disable-log-stats')}: hides the engine labels by which the router "
                f"counts the {role.shape.dp} ranks of an endpoint, so one of them gets all requests"
            )
            return


def _interval(view: View) -> Iterator[str]:
    for role in view.roles.values():
        step = role.number("stream-interval")
        if step is not None and step > 1 and role.name != "prefill":
            yield (
                f"{role.at('stream-interval')}: tokens leave {step} at a time, so ITL figures are "
                "of such bunches (TTFT and TPOT are not touched)"
            )
            return


ENTRIES = (
    KnownBad(
        name="headless-with-api-servers",
        level="error",
        check=_headless_servers,
        remedy="leave it out, or use load_balancing=hybrid",
        reference="vLLM 0.33.0 entrypoints/cli/serve.py:69",
        example=("flags=article_stats", "topology.roles.decode.load_balancing=internal"),
        near_miss=("flags=article_stats",),
    ),
    KnownBad(
        name="several-api-servers",
        level="warning",
        check=_many_servers,
        remedy="set 1 (flags=article_stats) where the lines are wanted; /metrics works either way",
        reference="vLLM 0.33.0 v1/metrics/loggers.py:1384",
        example=("+flags.all.api-server-count=4",),
        near_miss=("+flags.all.api-server-count=1",),
    ),
    KnownBad(
        name="stats-off-hides-ranks",
        level="error",
        check=_stats_off,
        remedy="leave it out",
        reference="vllm-router 0.1.17, DP discovery by /metrics",
        example=("+flags.all.disable-log-stats=true",),
        near_miss=("+flags.all.disable-log-stats=true", "topology=dp1_prefill1x1"),
    ),
    KnownBad(
        name="stream-interval-and-itl",
        level="warning",
        check=_interval,
        remedy="set flags.all.stream-interval=1 where ITL is to be reported",
        reference="vLLM 0.33.0 config/scheduler.py, stream_interval",
        example=("flags.all.stream-interval=100",),
        near_miss=("flags.all.stream-interval=1",),
    ),
)
