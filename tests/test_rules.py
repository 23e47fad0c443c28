"""Arithmetic and forms, checked before anything is submitted: what is told, and what not."""

from __future__ import annotations

import pytest

from jobs.rehearsal.faults import FaultError, parse_fault
from jobs.rehearsal.options import build_parser
from launcher.engines.rehearsal import FAULTS, OPTIONS
from launcher.estimate import estimate
from launcher.time_limit import clock, seconds_of
from launcher.validate import find
from tests.compose import config_of, plan_of


def problems(*overrides: str) -> str:
    """Every problem of a command line, one a line."""
    return "\n".join(find(config_of(*overrides)).problems)


def warnings(*overrides: str) -> str:
    """Every warning of a command line, one a line."""
    findings = find(config_of(*overrides))
    assert not findings.problems
    return "\n".join(findings.warnings)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("04:00:00", 14400),
        ("1-00:00:00", 86400),
        ("2-12", 216000),
        ("1-6:30", 109800),
        ("90:00", 5400),
        ("120:00:00", 432000),
        ("0:00:00", 0),
        ("5400", None),
        ("4h", None),
        ("1-30:00:00", None),
        ("04:60:00", None),
        ("", None),
        ("UNLIMITED", None),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds


def test_a_bare_number_as_a_time_is_refused_with_both_its_readings() -> None:
    text = problems("cluster.time=5400")
    assert "minutes to Slurm (90:00:00)" in text
    assert "1:30:00 without quotes" in text


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("cluster.time='00:00:00'",), "no time at all"),
        (("cluster.time='00:02:00'",), "cluster.grace_s=120: the driver would be told to end"),
        (("cluster.time='02:00'",), "cluster.grace_s=120"),
        (("cluster.nodes=3",), "the topology needs 4 nodes of 4 GPUs for prefill 4 x (tp 1 x pp 1"),
        (("cluster.nodes=3",), "topology.roles.prefill.endpoints=2"),
        (("cluster.nodes=6",), "so that 8 GPUs would stay idle"),
        (("topology.roles.decode.dp=16", "cluster.nodes=4"), "dp 16) = 16 GPUs"),
        (("topology.roles.decode.dp=4", "cluster.nodes=4"), "dp 4) = 4 GPUs"),
        (("topology.roles.prefill.endpoints=40", "cluster.nodes=18"), "prefill.endpoints=32"),
        (("topology.roles.decode.dp=64", "cluster.nodes=16"), "nothing of this shape fits"),
        (("cluster.segment=42",), "one NVLink domain has 18 nodes"),
        (
            (
                *("cluster.ports.internal=65000", "topology=dep8_prefill8x2"),
                "cluster.gpus_per_node=16",
            ),
            "allowed: up to 65535",
        ),
        (("cluster.ports.nixl=8100",), "nixl side channel rank"),
        (
            (
                "+flags.all.kv-events-config={enable_kv_cache_events:true}",
                "cluster.ports.nixl=5557",
            ),
            "kv events endpoint rank 0",
        ),
        (
            ("+flags.all.kv-events-config={enable_kv_cache_events:true}",),
            "adds the data-parallel rank to its port and nothing else",
        ),
        (("cluster.account=' ??? '",), "cluster.account=' ??? ' is not set (???)"),
        (("+cluster.env.A=' ??? '",), "cluster.env.A=' ??? ' is not set (???)"),
        (("cluster.partition='gb '",), "cluster.partition='gb ': has blanks around it"),
        (("+cluster.env.UCX_CUDA_IPC_ENABLE_MNNVL=True",), "would be given the word True"),
        (("+cluster.sbatch.requeue_x=false",), "options have no off form"),
        (("+cluster.sbatch.comment=true",), "the option takes a text"),
        (("+cluster.sbatch.time-min=5400",), "a time in quotes is meant"),
        (("engine=rehearsal", "+engine.options.fail=bogus"), FAULTS),
        (("engine=rehearsal", "+engine.options.fial=kvfail"), "no such option; allowed: fail"),
        (("engine=rehearsal", "+engine.options.prefill-tps=fast"), "a number above 0"),
    ],
)
def test_what_cannot_work_is_told_with_its_numbers(overrides: tuple[str, ...], words: str) -> None:
    assert words in problems(*overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        ("cluster.nodes=4",),
        ("cluster.time='1-00'",),
        ("+cluster.sbatch.contiguous=true", "+cluster.sbatch.comment='on'"),
        ("+cluster.env.UCX_CUDA_IPC_ENABLE_MNNVL=y", "+flags.all.enable-cumem-allocator=true"),
        ("engine=rehearsal", "+engine.options.fail='exit:7@3.5'"),
        ("topology.roles.decode.dp=1", "topology.roles.decode.tp=8"),
        ("topology.roles.prefill.endpoints=32",),
    ],
)
def test_what_can_work_is_not_refused(overrides: tuple[str, ...]) -> None:
    assert problems(*overrides) == ""


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("topology.roles.prefill.endpoints=40",), "KV between some endpoints leaves NVLink"),
        (("cluster.segment=16",), "it looks like the number of GPUs"),
        (("cluster.cpus_per_node=null",), "every step asks Slurm for 1 CPU"),
        (("cluster.cpus_per_node=2",), "fewer than the node's 4 GPUs"),
        (("+flags.roles.decode.max-num-seqs=256",), "8 ranks run 2048 requests at once"),
        (("cluster.ports.nixl=40000",), "from which Linux takes ports"),
        (("cluster.budgets.teardown_s=300",), "less than cluster.budgets.teardown_s=300"),
        (("cluster.time='01:00:00'",), "looks too short: the estimate is"),
        (("cluster.budgets.point_s=600",), "looks too short for point c5120"),
        (("workload.request_timeout_s=60",), "one request is estimated at"),
        (("+cluster.env.FOO=True",), "would be given the word True"),
    ],
)
def test_what_works_badly_is_a_warning(overrides: tuple[str, ...], words: str) -> None:
    assert words in warnings(*overrides)


def test_the_shipped_default_has_few_warnings() -> None:
    assert 1 <= len(find(config_of()).warnings) <= 4


def test_a_form_problem_hides_no_plan_problem() -> None:
    text = problems("workload.range_ratio=2", "cluster.time=9", "cluster.segment=42", "wait=x")
    for words in ("range_ratio=2.0", "cluster.time='9'", "cluster.segment=42", "wait='x'"):
        assert words in text
    assert "topology.roles.prefill.dp=0" in problems("topology.roles.prefill.dp=0", "wait=x")


def test_a_topology_that_cannot_be_placed_hides_no_other_problem() -> None:
    text = problems(
        *("topology.roles.prefill.tp=3", "cluster.nodes=4", "+flags.all.port=9"),
        "+flags.all.gdn-prefill-backend=auto",
    )
    for words in ("choose tp x pp of 1, 2, 4", "flags.all.port=9", "the command line has no auto"):
        assert words in text
    assert text.count("a rank must divide") == 1


@pytest.mark.parametrize(
    ("nccl", "gloo", "verdict"),
    [
        ("^lo,docker,veth", "^lo,docker,veth", "refused"),
        ("^lo,docker,veth", "enP5p9s0", "accepted"),
        (None, None, "warned"),
        ("lo", "lo", "refused"),
        ("enP5p9s0", "lo", "refused"),
        (None, "bond0", "accepted"),
    ],
)
def test_interface_names_fit_who_reads_them(
    nccl: str | None, gloo: str | None, verdict: str
) -> None:
    names = {"NCCL_SOCKET_IFNAME": nccl, "GLOO_SOCKET_IFNAME": gloo}
    overrides = [f"+cluster.env.{name}='{value}'" for name, value in names.items() if value]
    findings = find(config_of(*overrides))
    told = "refused" if findings.problems else "accepted"
    if not findings.problems and "GLOO_SOCKET_IFNAME" in "\n".join(findings.warnings):
        told = "warned"
    assert told == verdict


@pytest.mark.parametrize("tp", [4, 8])
@pytest.mark.parametrize("pp", [1, 8])
@pytest.mark.parametrize("dp", [1, 2])
def test_of_a_product_of_sizes_those_that_fit_the_expected_nodes_are_kept(
    tp: int, pp: int, dp: int
) -> None:
    text = problems(
        *("topology=dep8_aggregated", "cluster.gpus_per_node=8", "cluster.nodes=1"),
        *(f"topology.roles.aggregated.{key}={value}" for key, value in
          {"tp": tp, "pp": pp, "dp": dp}.items()),
        "flags.all.async-scheduling=null",
    )  # fmt: skip
    assert (text == "") == (tp * pp * dp <= 8), text


def test_the_estimate_is_the_written_formula_and_near_the_published_points() -> None:
    plan, _ = plan_of("workload.concurrency=[64,1024,4096]", "accuracy=none")
    made = estimate(plan)
    assert made is not None
    mean_in, mean_out = (6553 + 8192) / 2, (819 + 1024) / 2
    request = mean_out * 0.013 + 4096 * (mean_in + mean_out) / (25000 * 16)
    assert made.points_s["c4096"] == pytest.approx(9 * request)
    published = {"c64": 2550, "c1024": 20330, "c4096": 21850}
    for name, per_gpu in published.items():
        measured = int(name[1:]) * (mean_in + mean_out) / (per_gpu * 16)
        assert 0.9 < made.request_s[name] / measured < 1.34, name
    assert made.start_s == 1200


def test_without_known_speeds_or_gpus_there_is_no_estimate() -> None:
    assert estimate(plan_of("engine=rehearsal")[0]) is None
    assert estimate(plan_of("model.expected.tpot_ms=null")[0]) is None


def test_a_clock_reads_as_hours() -> None:
    assert clock(14705) == "4:05:05"


def test_rehearsal_options_are_those_of_its_command_line() -> None:
    derived = {"role", "host", "port", "model", "dp", "dp-start", "dp-local", "nixl-base"}
    derived |= {"headless", "rpc-address", "rpc-port", "help"}
    known = {
        text.removeprefix("--")
        for action in build_parser()._actions
        for text in action.option_strings
        if text.startswith("--")
    }
    assert known - derived == set(OPTIONS)


@pytest.mark.parametrize(
    "fault", ["exit:7@3", "exit:7", "hang@2.5", "hang", "kvfail", "kvfail@3", "badstate@x", "x"]
)
def test_faults_are_accepted_exactly_where_the_engine_accepts_them(fault: str) -> None:
    try:
        parse_fault(fault)
        accepted = True
    except FaultError:
        accepted = False
    assert bool(OPTIONS["fail"].fullmatch(fault)) == accepted
