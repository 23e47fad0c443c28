"""Sweeps composed in this process: members, groups and combinations of a command line."""

from __future__ import annotations

import sys

from launcher.diagnosis import judged
from launcher.schema import register
from launcher.sweep.composer import Composer
from launcher.sweep.groups import Group, Member, grouped

QUICK = ("engine=rehearsal", "cluster=local", "dry_run=true")


def combinations_of(*words: str) -> list[tuple[str, ...]]:
    """The overrides of every combination of a command line."""
    register()
    return Composer().axes(words).combinations()


def members_of(*words: str) -> list[Member]:
    """Every combination of a sweep that is in order."""
    composer, members = Composer(), []
    asked = () if any(word.startswith("accuracy=") for word in words) else ("accuracy=none",)
    for number, overrides in enumerate(combinations_of(*QUICK, *asked, *words)):
        made = composer.made(overrides)
        assert judged(made.config, sys.executable).problems == ()
        members.append(
            Member(number=number, config=made.config, labels=made.labels, overrides=overrides)
        )
    return members


def groups_of(*words: str, order: str = "as_given") -> list[Group]:
    """The jobs of a sweep."""
    return grouped(members_of(*words), order)
