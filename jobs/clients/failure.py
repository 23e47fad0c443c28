"""Every way in which a request can fail, by one word each: a failure is counted, never averaged."""

from __future__ import annotations

from typing import NamedTuple

SAMPLE_LENGTH = 300


class Failure(NamedTuple):
    """`kind` is what is counted, `text` what one example of it looked like.

    | kind | the server, or the way to it |
    |---|---|
    | dns | has a name without an address |
    | connect, timeout_connect, tls | could not be reached, not in time, not by TLS |
    | http_NNN | answered another status than 200 |
    | content_type, content_encoding | answered 200 with something that is no plain event stream |
    | bad_http, head_too_large | does not speak HTTP/1.1; or never ends its headers |
    | disconnected, reset | ended the connection in the middle of an answer |
    | kept_closed | ended a connection that had carried answers before a byte of the next |
    | timeout_stall, timeout_total | sent nothing for too long; did not end in time |
    | stream_error | sent an error as an event, or ended a choice by an error |
    | bad_json, bad_event, event_too_large, after_done | sent events that mean nothing |
    | no_done, no_usage, no_tokens | ended its answer without [DONE], usage or a single token |
    | bad_usage, token_count, too_many_chunks | counts wrongly; or answered another length |
    | earlier_turn | was not asked: an earlier turn of this conversation failed |
    """

    kind: str
    text: str


def failure(kind: str, text: str) -> Failure:
    """A failure with its example cut to what a log line bears."""
    return Failure(kind, text[:SAMPLE_LENGTH])
