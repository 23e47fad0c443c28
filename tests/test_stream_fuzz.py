"""The stream reader on drawn answers, right and damaged; for long: python -m tests.fuzz_stream."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.clients.sse import EventReader
from tests.fuzz_stream import one_damaged, one_right

BUDGET = settings(
    max_examples=80, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
RANDOMS = st.randoms(use_true_random=False)


@BUDGET
@given(RANDOMS)
def test_a_right_answer_is_good_however_it_is_written_and_cut(random: Random) -> None:
    one_right(random)


@BUDGET
@given(RANDOMS)
def test_a_damaged_answer_ends_once_and_alike_however_it_is_cut(random: Random) -> None:
    one_damaged(random)


def by_the_letter(text: bytes) -> list[bytes]:
    """Events as the specification reads them, from the whole text, slowly."""
    text = text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[bytes] = []
    data: list[bytes] = []
    for line in text.split(b"\n")[:-1]:
        if not line:
            events += [b"\n".join(data)] if data else []
            data = []
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
    return events


PARTS = st.sampled_from(
    [b"data:", b"data", b" ", b":", b"a", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf"]
)


@BUDGET
@given(st.lists(st.lists(PARTS, max_size=6), max_size=8))
def test_events_are_those_of_the_specification(pieces: list[list[bytes]]) -> None:
    joined = [b"".join(piece) for piece in pieces]
    reader = EventReader()
    found = [event for piece in joined for event in reader.feed(piece)]
    wanted = by_the_letter(b"".join(joined))
    # A CR at the very end may be half of a CRLF, so what it completes is not told yet.
    assert found == wanted or found + reader.close() == wanted
