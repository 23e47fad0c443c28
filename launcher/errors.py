"""Mistakes a user can mend, told in one message without a traceback (exit code 2)."""

from __future__ import annotations

from collections.abc import Iterable


class LauncherError(Exception):
    """Something in the user's input, files or environment stops the launch."""


class PlanError(LauncherError):
    """One or more problems of a configuration, found before anything was submitted."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = "1 problem" if count == 1 else f"{count} problems"
        body = "\n".join(f"  {number}. {text}" for number, text in enumerate(self.problems, 1))
        super().__init__(f"{head} found before submission, nothing was submitted:\n{body}")


class SubmissionError(LauncherError):
    """The scheduler did not take the job; its own text, explained where known."""
