"""What Slurm's programs print, read as Slurm means it: node lists, states, ids, node states."""

from __future__ import annotations

import random

import pytest

from jobs.hostlist import NodeListError, expand_hostlist
from jobs.job_states import PHASES, parse_job_id, parse_state
from jobs.node_states import parse_node_state
from tests.cluster import Cluster


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "gb200-[01-03,07],nvl72r1-n[001-003]",
            [
                *("gb200-01", "gb200-02", "gb200-03", "gb200-07"),
                *("nvl72r1-n001", "nvl72r1-n002", "nvl72r1-n003"),
            ],
        ),
        ("gb200-[9-11]", ["gb200-9", "gb200-10", "gb200-11"]),
        ("a[098-101]", ["a098", "a099", "a100", "a101"]),
        ("n[8-010]", ["n8", "n9", "n10"]),
        ("n[00-02]", ["n00", "n01", "n02"]),
        ("n01,n1,n001", ["n01", "n1", "n001"]),
        ("watch-cn13", ["watch-cn13"]),
        ("n[5]", ["n5"]),
        ("a[1-2][3-4]", ["a13", "a14", "a23", "a24"]),
        ("a[1-2]b[3-4]c,x", ["a1b3c", "a1b4c", "a2b3c", "a2b4c", "x"]),
        ("n[001-002,010]-gpu", ["n001-gpu", "n002-gpu", "n010-gpu"]),
        ("n[1-3],n[2,4]", ["n1", "n2", "n3", "n4"]),
        ("n2,n1,n2", ["n2", "n1"]),
        ("n[1-2],", ["n1", "n2"]),
        ("a.b-c_d[1-2]", ["a.b-c_d1", "a.b-c_d2"]),
    ],
)
def test_node_lists_expand_as_scontrol_does_but_each_node_once(text: str, names: list[str]) -> None:
    assert expand_hostlist(text) == names


@pytest.mark.parametrize("text", ["", " ", "(null)", "None assigned", "None", "N/A", "n/a"])
def test_place_holders_are_no_nodes(text: str) -> None:
    assert expand_hostlist(text) == []


@pytest.mark.parametrize(
    "text",
    [
        *("gb200-[01-03", "gb200-01-03]", "n[]", "n[3-1]", "n[1-]", "n[-3]", "n[1,,2]", "n[a-b]"),
        *("n[[1-2]]", "n[1-4:2]", "n[1 -2]", "tux[0-99999999]", "n[0-999][0-999]", "(Priority)"),
        *("None assigned yet", "a b", "n1;reboot", "../etc", "-n1", "$(x)", "n\x1b[1m", "n1\nn2"),
        "n[\uff11-2]",
    ],
)
def test_a_broken_list_or_a_hostile_name_is_an_error_that_shows_the_text(text: str) -> None:
    with pytest.raises(NodeListError) as caught:
        expand_hostlist(text)
    assert repr(text.strip()[:200]) in str(caught.value)


@pytest.mark.slurm
def test_random_node_lists_expand_as_the_installed_scontrol_does(slurm_cluster: Cluster) -> None:
    source = random.Random(7)
    for _ in range(40):
        text = ",".join(_random_part(source) for _ in range(source.randint(1, 4)))
        told = slurm_cluster.run("scontrol", "show", "hostnames", text).split()
        assert expand_hostlist(text) == list(dict.fromkeys(told)), text


def _random_part(source: random.Random) -> str:
    text = source.choice(["n", "gb200-", "r1.x"])
    for _ in range(source.randint(0, 2)):
        low, width = source.randint(0, 120), source.randint(1, 4)
        ranges = [f"{low:0{width}d}-{low + source.randint(0, 12):0{width}d}", str(low + 20)]
        text += f"[{','.join(source.sample(ranges, source.randint(1, 2)))}]"
        text += source.choice(["", "-gpu", "x"])
    return text + ("7" if text.endswith(("-", ".")) else "")


@pytest.mark.parametrize(
    ("text", "word", "phase", "ok"),
    [
        ("COMPLETED", "COMPLETED", "ended", True),
        ("CANCELLED by 54321", "CANCELLED", "ended", False),
        ("CANCELLED+", "CANCELLED", "ended", False),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", "ended", False),
        ("NODE_FAIL", "NODE_FAIL", "ended", False),
        ("BOOT_FAIL", "BOOT_FAIL", "ended", False),
        ("DEADLINE", "DEADLINE", "ended", False),
        ("TIMEOUT", "TIMEOUT", "ended", False),
        ("PREEMPTED", "PREEMPTED", "ended", False),
        ("REVOKED", "REVOKED", "ended", False),
        ("RUNNING", "RUNNING", "running", None),
        ("running", "RUNNING", "running", None),
        ("R", "RUNNING", "running", None),
        ("PD", "PENDING", "waiting", None),
        ("COMPLETING", "COMPLETING", "running", None),
        ("SUSPENDED", "SUSPENDED", "running", None),
        ("STOPPED", "STOPPED", "running", None),
        ("RESIZING", "RESIZING", "running", None),
        ("REQUEUED", "REQUEUED", "waiting", None),
        ("REQUEUE_HOLD", "REQUEUE_HOLD", "waiting", None),
        ("REQUEUE_F+", "REQUEUE_FED", "waiting", None),
        ("SPECIAL_EXIT", "SPECIAL_EXIT", "waiting", None),
        ("CONFIGURI+", "CONFIGURING", "waiting", None),
        ("PENDING,REQUEUED", "PENDING", "waiting", None),
        ("COMPLETING|NODE_FAIL", "COMPLETING", "running", None),
        ("  PENDING  ", "PENDING", "waiting", None),
        ("PENDING,EXPEDITING", "PENDING", "waiting", None),
        ("FAILED,LAUNCH_FAILED", "FAILED", "ended", False),
        ("PENDING,LAUNCH_FAILED", "PENDING", "waiting", None),
        ("LAUNCH_FAILED", "LAUNCH_FAILED", "running", None),
        ("RUNNING,NEWFLAG", "RUNNING", "running", None),
        ("PENDING|NEWFLAG", "PENDING", "waiting", None),
    ],
)
def test_job_states_are_read_with_extra_words_cuts_codes_and_flags(
    text: str, word: str, phase: str, ok: bool | None
) -> None:
    state = parse_state(text)
    assert (state.word, state.phase, state.ok, state.warning) == (word, phase, ok, None)


@pytest.mark.parametrize(
    "text", ["SOMETHING_NEW", "", "RE+", "COMPLETED,NEWFLAG", "FAILED|NEWFLAG", "None", "Ξ"]
)
def test_a_word_nobody_knows_is_unknown_with_a_warning_and_never_good(text: str) -> None:
    state = parse_state(text)
    assert (state.phase, state.ok) == ("unknown", None)
    assert state.warning


def test_who_cancelled_a_job_is_kept() -> None:
    assert parse_state("CANCELLED by 54321").by == "54321"


def test_who_cancelled_a_job_is_not_told_by_a_cut_id() -> None:
    assert parse_state("CANCELLED by 543+").by is None
    assert parse_state("CANCELLED by 543+").word == "CANCELLED"


def test_every_state_survives_the_ten_columns_of_an_old_sacct() -> None:
    for word in PHASES:
        shown = word if len(word) <= 10 else word[:9] + "+"
        assert parse_state(shown).phase == PHASES[word], shown


@pytest.mark.parametrize(
    ("text", "job", "tasks", "step"),
    [
        ("123456_[9201-10000%500]", "123456", 800, None),
        ("123456_17", "123456", 1, None),
        ("123456_18.batch", "123456", 1, "batch"),
        ("123457_[3,5-7]", "123457", 4, None),
        ("123458_[0-7:2]", "123458", 4, None),
        ("123458_[0-7:2%1]", "123458", 4, None),
        ("123458_[1,1-2]", "123458", 2, None),
        ("123459", "123459", 1, None),
        ("123459.extern", "123459", 1, "extern"),
        ("123459+1", "123459", 1, None),
        ("9005_[9201-+", None, 0, None),
        ("9005_[9201-...", None, 0, None),
        ("9005_[7-3]", None, 0, None),
        ("9005_[0-7:0]", None, 0, None),
        ("JobID", None, 0, None),
        ("\uff11\uff12\uff13", None, 0, None),
        ("123_[\uff11-3]", None, 0, None),
        ("", None, 0, None),
    ],
)
def test_job_id_columns_tell_job_tasks_and_step_or_that_they_were_cut(
    text: str, job: str | None, tasks: int, step: str | None
) -> None:
    column = parse_job_id(text)
    assert (column.job, column.tasks) == (job, tasks)
    assert column.step == step or job is None


FREE = ("idle", "IDLE", "IDLE+CLOUD", "IDLE+DYNAMIC_NORM")
BUSY = ("mixed", "mixed-", "allocated", "completing", "MIXED+PLANNED", "ALLOCATED+COMPLETING")
NOT_FREE = (
    *("idle*", "drained*", "draining", "down*", "idle~", "idle#", "idle$", "idle@", "idle^"),
    *("idle%", "idle!", "planned", "reserved", "maint", "IDLE+DRAIN", "DOWN*+DRAIN", "inval"),
    *("ALLOCATED+DRAIN", "IDLE+CLOUD+POWERED_DOWN", "IDLE+MAINTENANCE+RESERVED", "blocked"),
    *("IDLE+NOT_RESPONDING", "IDLE+NEW_FLAG", "idle-", "", "new_word", "IDLE+", "fail", "unknown"),
    *("IDLE+RESERVED", "IDLE+REBOOT_REQUESTED", "IDLE+BLOCKED", "IDLE+FAIL", "mixed*"),
)


def test_only_an_idle_node_with_nothing_against_it_is_free() -> None:
    assert {text: parse_node_state(text).use for text in FREE} == dict.fromkeys(FREE, "free")
    assert {text: parse_node_state(text).use for text in BUSY} == dict.fromkeys(BUSY, "busy")
    assert [text for text in NOT_FREE if parse_node_state(text).use in ("free", "busy")] == []


def test_a_mark_and_the_flag_that_scontrol_joins_mean_the_same() -> None:
    for marked, joined in (
        ("idle*", "IDLE+NOT_RESPONDING"),
        ("idle~", "IDLE+POWERED_DOWN"),
        ("idle$", "IDLE+MAINTENANCE"),
        ("down*", "DOWN+NOT_RESPONDING"),
    ):
        assert parse_node_state(marked) == parse_node_state(joined)
