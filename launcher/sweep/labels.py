"""The name of a sweep's job: its topology, and what else sets it apart from the others."""

from __future__ import annotations

import re

from launcher.sweep.groups import Group
from launcher.sweep_axes import Axes


def label_of(group: Group, axes: Axes) -> str:
    """Name of a group's job and folder: its topology, and what else sets it apart."""
    plan = group.plan
    if plan.config.name:
        return plan.config.name
    parts = [group.labels["topology"]]
    for word in group.members[0].overrides:
        key, _, value = re.sub(r"['\"\\]", "", word).partition("=")
        key = key.lstrip("+~")
        if key in axes.swept and key != "topology" and not key.startswith(("workload", "accuracy")):
            parts.append(value if "." not in key else f"{key.rsplit('.', 1)[1]}{value}")
    return "-".join(parts)
