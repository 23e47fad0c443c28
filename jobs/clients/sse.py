"""Server-sent events out of a byte stream that may be cut anywhere."""

from __future__ import annotations

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""The largest event that is kept; vLLM's are below 1 KiB, with log probabilities some 100 KiB."""

BOM = b"\xef\xbb\xbf"


class EventTooLargeError(ValueError):
    """An event, or a line of one, is larger than any that is believed."""


class ErrorData(bytes):
    """The data of an event whose type is `error`."""


class EventReader:
    """Collects bytes and gives back the data of complete events.

    Takes LF, CRLF and CR line ends, comments, other fields than data and event, and events of
    several data lines (joined by a newline), as the WHATWG specification says. Keeps at most
    MAX_EVENT_BYTES and one piece.
    """

    __slots__ = ("_begun", "_data", "_data_bytes", "_error", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._begun = False
        self._error = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of every event that `piece` completes; EventTooLargeError beyond the limit."""
        rest = self._rest
        if rest:
            if b"\n" not in piece and b"\r" not in piece and rest[-1:] != b"\r":
                rest += piece
                self._limit(len(rest))
                return []
            piece = bytes(rest) + piece
            rest.clear()
        # A CR at the very end may be half of a CRLF: keep it until the next piece.
        held = piece.endswith(b"\r")
        if held:
            piece = piece[:-1]
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, last = piece.split(b"\n")
        rest += last
        if held:
            rest += b"\r"
        self._limit(len(rest))
        found: list[bytes] = []
        for line in lines:
            self._line(line, found)
        return found

    def close(self) -> list[bytes]:
        """The data of an event the stream ended without a blank line after, if there is one."""
        found: list[bytes] = []
        self._line(bytes(self._rest).removesuffix(b"\r"), found)
        self._line(b"", found)
        self._rest.clear()
        return found

    def _line(self, line: bytes, found: list[bytes]) -> None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(BOM)
        if not line:
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                found.append(ErrorData(data) if self._error else data)
                self._data = []
                self._data_bytes = 0
            self._error = False
            return
        if line.startswith(b"data:"):
            # One blank after the colon belongs to the field's syntax, not to its value.
            value = line[6:] if line[5:6] == b" " else line[5:]
        elif line == b"data":
            value = b""
        else:
            if line.startswith(b"event:"):
                self._error = line[6:].strip() == b"error"
            return
        self._data_bytes += len(value) + 1
        self._limit(self._data_bytes)
        self._data.append(value)

    def _limit(self, size: int) -> None:
        if size > MAX_EVENT_BYTES:
            raise EventTooLargeError(f"an event of more than {MAX_EVENT_BYTES} bytes")
