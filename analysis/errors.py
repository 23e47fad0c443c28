"""The two ways reading can go wrong: the user's request, or one file."""

from __future__ import annotations

from jobs.records import RecordError as BrokenFileError

__all__ = ["AnalysisError", "BrokenFileError"]


class AnalysisError(ValueError):
    """A request that cannot be answered as typed; the text is shown without a traceback."""
