"""How long each phase of a run may take, of the group `cluster`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class StallConfig:
    """Seconds an endpoint may spend in one start-up phase without any progress, before it counts
    as hung. Progress is a later phase, more per cent, or a log line of a kind not seen before."""

    launch_s: float = 300.0
    import_s: float = 600.0
    config_s: float = 600.0
    engine_s: float = 900.0
    weights_s: float = 900.0
    compile_s: float = 1800.0
    kv_s: float = 900.0
    graphs_s: float = 1800.0
    ready_s: float = 900.0


@dataclass
class BudgetsConfig:
    """Seconds each phase may take; start-up extends while progress is seen."""

    preflight_s: float = 120.0
    start_s: float = 3600.0
    router_s: float = 60.0
    canary_s: float = 600.0
    prepare_s: float = 7200.0
    point_s: float = 7200.0
    accuracy_s: float = 7200.0
    stage_s: float = 3600.0
    """All nodes' copies of the model, with cluster.stage."""
    teardown_s: float = 12.0
    """From the first signal to nothing left: TERM for half of it, then KILL."""
    no_token_s: float = 300.0
    """Longest time without one token from any engine while a point or the accuracy runs."""
    no_answer_s: float = 60.0
    """Longest time that an engine's metrics or the router may not answer, and that an engine's
    token counters may stand still while it has running requests."""
    stall: StallConfig = field(default_factory=StallConfig)
