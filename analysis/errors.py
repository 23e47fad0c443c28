"""The two ways reading can go wrong: the user's request, or one file."""

from __future__ import annotations


class AnalysisError(ValueError):
    """A request that cannot be answered as typed; the text is shown without a traceback."""


class BrokenFileError(ValueError):
    """A file that cannot be what its place claims; the text names the file and the reason."""
