"""The one error of this room."""

from __future__ import annotations


class PromptError(RuntimeError):
    """These prompts cannot be made or read; the text is the whole message."""
