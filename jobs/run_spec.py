"""run.json as typed, frozen values: everything the job needs to know, decided before submission."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Step:
    """One process: `command` is the whole line to start, on the node with index `node`."""

    name: str
    node: int
    argv: list[str]
    env: dict[str, str]
    command: list[str]
    log: str


@dataclass(frozen=True, kw_only=True)
class Listener:
    """A port that a process will listen on, and for what."""

    what: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Worker(Step):
    """One engine process. `dp_ranks` are the global ranks in it; `url` is None when headless."""

    role: str
    endpoint: int
    node_rank: int
    leader: bool
    gpus: list[int]
    dp_ranks: list[int]
    dp: int
    url: str | None
    ports: dict[str, Any]
    listeners: list[Listener]
    served_ranks: list[int] = field(default_factory=list)
    """Global ranks that `url` reaches, in the order in which requests name them."""

    @property
    def side_channels(self) -> list[int]:
        """Ports of the KV transfer's side channels in this process, one per rank."""
        ports = self.ports.get("nixl") or []
        return [int(port) for port in (ports if isinstance(ports, list) else [ports])]


@dataclass(frozen=True, kw_only=True)
class Router(Step):
    """The router's process and where it answers."""

    url: str
    listeners: list[Listener] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LengthRange:
    """Inclusive token counts per request, and the definition of the ratio they came from."""

    definition: str
    ratio: float
    input: list[int]
    output: list[int]


@dataclass(frozen=True, kw_only=True)
class Sending:
    """When requests are sent; without a rate (requests a second) in a closed loop."""

    request_rate: float | None = None
    burstiness: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """Limits of a good request, ms; None: no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class Point:
    """One benchmark point and the client process that measures it."""

    index: int
    name: str
    concurrency: int
    num_prompts: int
    warmup_requests: int
    isl: int
    osl: int
    range: LengthRange
    seed: int
    client: str
    step: Step
    result: str
    prompts: dict[str, Any] = field(default_factory=dict)
    """What its prompts are: source and the source's own fields (docs/prompts.md)."""
    repeat: int = 0
    """Which measurement of this load in the run, from 0."""
    sending: Sending = field(default_factory=Sending)
    goodput: Goodput = field(default_factory=Goodput)
    workload: str = ""
    """Label of its workload, where the run has points of several."""


@dataclass(frozen=True, kw_only=True)
class AccuracyPlan:
    """What to ask for the accuracy score, how often, and against which reference."""

    dataset: str
    comparable: bool
    repeats: int
    questions_path: str | None = None
    shots_path: str | None = None
    num_questions: int | None = None
    num_shots: int
    max_tokens: int
    temperature: float
    seed: int
    stop: list[str]
    concurrency: int
    timeout_s: float
    retries: int
    reference: float | None = None
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class CanaryPlan:
    """How the transferred state is checked; `form` is exact or band."""

    enabled: bool
    prompts: int
    tokens: int
    prompt_tokens: int
    form: str
    pair_prompts: int = 1


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """Seconds a phase may take."""

    preflight_s: float
    start_s: float
    router_s: float
    canary_s: float
    prepare_s: float
    point_s: float
    accuracy_s: float
    teardown_s: float = 12.0
    stage_s: float = 3600.0
    no_token_s: float = 300.0
    no_answer_s: float = 60.0
    stall: dict[str, float] = field(default_factory=dict)
    """By `<phase>_s`; a start-up phase that is not in it may take all of start_s."""


@dataclass(frozen=True, kw_only=True)
class PreflightPlan:
    """What every node must have before anything starts there."""

    paths: list[str] = field(default_factory=list)
    executables: list[str] = field(default_factory=list)
    min_free_disk_gb: float = 0.0
    min_free_memory_gb: float = 0.0
    cache_dir: str | None = None
    kept_caches: str | None = None
    """Name of the compile caches that outlive the run; None: they go with it."""
    model: str | None = None
    model_files: dict[str, int] = field(default_factory=dict)
    """Bytes of the model's files where the run was submitted; empty where that saw no model."""
    engine_python: str | None = None
    """The Python that holds the engine, outside a container."""
    devices: list[str] = field(default_factory=list)
    """Network devices that the workers' environment names."""
    max_clock_skew_s: float = 2.0
    max_gpu_used_gb: float = 1.0
    inside: list[Step] = field(default_factory=list)
    """The preflight's program in the engine's container, one step a node."""
    on_bad_node: str = "stop"
    exclude: str | None = None
    """Nodes that the submission left out, as sbatch --exclude takes them."""


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """The model to be copied to every node's own disk, and how the copy is judged."""

    source: str
    dir: str
    """Node-local; the copies lie in launcher-<uid>-models below it."""
    name: str
    """Folder of this model there."""
    verify: str
    """sizes | content."""
    files_at_once: int
    keep: int
    min_free_disk_gb: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Placement, processes, points and budgets of one deployment."""

    executor: str
    nodes: int
    gpus_per_node: int
    segment: int | None = None
    """Nodes that share one NVLink domain, from the first on; None: not asked of Slurm."""
    served_model: str
    vocab_size: int | None = None
    needs_gpu: bool
    uses_nixl: bool
    workers: list[Worker]
    router: Router | None
    base_url: str
    points: list[Point]
    prompts: Step | None = None
    """Makes all points' prompt files; None in runs of before there was such a step."""
    accuracy: AccuracyPlan | None
    canary: CanaryPlan
    budgets: Budgets
    preflight: PreflightPlan
    stage: StagePlan | None = None
    """None: served from where it lies."""
    log_limit_mb: float = 300.0
    sample_s: float = 1.0
    """Seconds between two looks at a process's metrics; 0: none."""

    def with_role(self, role: str) -> list[Worker]:
        """The workers of one role."""
        return [worker for worker in self.workers if worker.role == role]

    def endpoint_of(self, name: str) -> list[str]:
        """Names of all processes of the endpoint that the worker `name` belongs to."""
        own = next(worker for worker in self.workers if worker.name == name)
        return [
            worker.name
            for worker in self.workers
            if (worker.role, worker.endpoint) == (own.role, own.endpoint)
        ]

    def ranks_behind(self, worker: Worker) -> int:
        """How many ranks answer at this worker's URL: its own and its headless followers'."""
        if worker.url is None:
            return 0
        if worker.served_ranks:
            return len(worker.served_ranks)
        followers = [
            other
            for other in self.workers
            if (other.role, other.endpoint) == (worker.role, worker.endpoint) and other.url is None
        ]
        own = len(worker.dp_ranks)
        return own + (sum(len(f.dp_ranks) for f in followers) if worker.leader else 0)


@dataclass(frozen=True, kw_only=True)
class EngineInfo:
    """Which engine serves, and which protocol it speaks."""

    name: str
    protocol: str
    release: str
    rehearsal: bool


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The copy of the code that the run's programs come from; `sha256` covers the plan as well."""

    code_dir: str
    code_sha256: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run, as the launcher handed it over."""

    schema: int
    run_id: str
    name: str
    engine: EngineInfo
    plan: Plan
    snapshot: Snapshot | None = None
    """None for a run.json that was not written by a submission."""

    @property
    def snapshot_sha256(self) -> str:
        """For records; empty without a snapshot."""
        return self.snapshot.sha256 if self.snapshot else ""
