"""Server-sent events out of a byte stream that may be cut anywhere."""

from __future__ import annotations


class EventReader:
    """Collects bytes and gives back the data of complete events.

    Takes LF, CRLF and CR line ends, comments, fields other than data, and events of several
    data lines (joined by a newline), as the WHATWG specification says.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of every event that `piece` completes."""
        buffer = self._rest + piece
        # A CR at the very end may be half of a CRLF: keep it until the next piece.
        held = b"\r" if buffer.endswith(b"\r") else b""
        if held:
            buffer = buffer[:-1]
        if b"\r" in buffer:
            buffer = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, last = buffer.split(b"\n")
        self._rest = last + held
        found: list[bytes] = []
        for line in lines:
            self._line(line, found)
        return found

    def close(self) -> list[bytes]:
        """The data of an event the stream ended without a blank line after, if there is one."""
        found: list[bytes] = []
        self._line(self._rest.removesuffix(b"\r"), found)
        self._line(b"", found)
        self._rest = b""
        return found

    def _line(self, line: bytes, found: list[bytes]) -> None:
        if not line:
            if self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif line == b"data":
            self._data.append(b"")
