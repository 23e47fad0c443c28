"""One combination that is known to be wrong: when it is, what to do, and who says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from launcher.known_bad.view import View

Check = Callable[[View], Iterator[str]]
"""Yields "key=value: what is wrong with it", once for every place."""

HASH = "vLLM 0.33.0 distributed/kv_transfer/kv_connector/v1/nixl/metadata.py, compatibility hash"
WORKER = "vLLM 0.33.0 distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBad:
    """One row of the table; docs/known-bad.md is written from it."""

    name: str
    level: str
    """error: it fails to start, or computes something wrong. warning: it runs, but hardly as
    meant."""
    check: Check
    remedy: str
    reference: str
    """Where it is public: vLLM issue or pull request, or a file of a release's source."""
    example: tuple[str, ...]
    """Overrides of the default configuration that trigger it."""
    near_miss: tuple[str, ...]
    """Overrides as near as possible that do not."""
    since: str = "0"
    """First release it applies to."""
    before: str = ""
    """First release it no longer applies to; empty: all later ones."""

    def applies(self, view: View) -> bool:
        """Whether it speaks of the configured release."""
        return view.at_least(self.since) and not (self.before and view.at_least(self.before))

    def found(self, view: View) -> Iterator[str]:
        """Its texts for a configuration, in the form of every problem of the launcher."""
        if self.applies(view):
            for text in self.check(view):
                yield f"{text}; {self.remedy} ({self.name}: {self.reference})"
