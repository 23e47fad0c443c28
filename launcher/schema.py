"""The typed shape of every configuration group under conf/.

Mutable on purpose: YAML is merged onto these by OmegaConf. Plan types (plan.py, placement.py)
are frozen. A key that is not here is an error, a value of another type is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclass
class ContainerConfig:
    """How a step enters its container."""

    kind: str = "none"
    """none | pyxis | apptainer. `none` runs the engine's own environment, `engine.env_dir`."""
    image: str | None = None
    """Image as the container runtime names it: registry reference, .sqsh or .sif path."""
    mounts: list[str] = field(default_factory=list)
    """Extra mounts, `host:container[:flags]`; model, results and code folders are added."""
    options: list[str] = field(default_factory=list)
    """Extra options, passed as they are (pyxis: srun options; apptainer: before the image)."""


@dataclass
class PortsConfig:
    """First port of each block; launcher/ports.py derives every listener from these."""

    router: int = 8000
    router_metrics: int = 29000
    http: int = 8100
    """Workers' HTTP: http + index of the process's first GPU on its node."""
    rpc: int = 13345
    """Data-parallel RPC: rpc + index of the endpoint's first GPU on its leader's node."""
    nixl: int = 5600
    """NIXL side channels: nixl + ranks of earlier endpoints + global DP rank (vLLM adds it)."""
    internal: int = 20000
    """VLLM_PORT windows of 50 for endpoints on one node: internal + 50 * first GPU."""


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


@dataclass
class PreflightConfig:
    """What a node must have, looked at on every node before a worker starts (docs/preflight.md)."""

    max_clock_skew_s: float = 2.0
    """How far a node's clock may be off the driver's, in seconds."""
    max_gpu_used_gb: float = 1.0
    """Memory of a GPU that may be in use while none of ours runs, GB."""
    min_free_memory_gb: float = 4.0
    """Host memory that must be available, GB."""


@dataclass
class StageConfig:
    """The model copied to each node's own disk before workers start (docs/stage-the-model.md)."""

    dir: str | None = None
    """Node-local folder for staged models: <dir>/launcher-<uid>-models, 0700. null: not staged, the
    workers read model.path."""
    verify: str = "sizes"
    """sizes | content. sizes: every file's size, the safetensors' own headers, and the content of
    files up to 64 MB. content: every file's SHA-256, read back from the disk."""
    files_at_once: int = 8
    """Files of one node that are copied at the same time."""
    keep: int = 2
    """Staged models of yours that stay on a node, this one included; before another is copied,
    those unused for longest are removed, but none that a living run uses."""


@dataclass
class ClusterConfig:
    """One site: where jobs run and what a node is."""

    executor: str = MISSING
    """slurm | local. local runs the same pipeline with process groups instead of srun steps."""
    gpus_per_node: int = 4
    """GPUs of one node (GB200 NVL72 compute tray: 4). On `local`, slots."""
    gpu_memory_gib: float | None = None
    """Memory of one GPU as the driver reports it, GiB; null: not known, so no pool is computed.
    conf/cluster/slurm_gb200.yaml has 184, derived and unconfirmed: see the comment there."""
    cpus_per_node: int | None = None
    """CPUs a step asks for are its share of these by GPUs; null leaves it to Slurm."""
    nodes: int | None = None
    """Nodes the job is expected to take, checked both ways; null: as many as the topology needs."""
    nvlink_domain_nodes: int = 18
    """Nodes of one NVLink domain (NVL72: 18 trays of 4 GPUs)."""
    segment: str = "auto"
    """auto | off | a node count. sbatch --segment: nodes that must share one block."""
    segment_fallback: str = "none"
    """none | divisor. divisor: where Slurm cannot hold the segment, the next smaller one that
    divides the node count and cuts no endpoint is asked for; the record says which was used."""
    results_dir: str = "runs"
    """Run directories are made here; must be on a file system that login node and nodes share."""
    python: str | None = None
    """Python of the driver on the nodes; null: the interpreter that runs the launcher."""
    time: str = "04:00:00"
    """Job time limit as Slurm writes it ([D-]HH:MM:SS, D-HH, D-HH:MM, MM:SS), in quotes."""
    grace_s: int = 120
    """Seconds before the time limit at which the driver is told to end and write its records."""
    requeue: bool = True
    """Whether Slurm may put the job back (preemption, lost node): it goes on where it stopped."""
    controller_s: float = 600.0
    """Seconds Slurm's controller may be out of reach: at submission, and while a run is followed
    before it counts as lost."""
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    exclude: str | None = None
    dependency: str | None = None
    """What sbatch --dependency takes: afterok:123, afterany:123:124, singleton."""
    sbatch: dict[str, Any] = field(default_factory=dict)
    """Further sbatch options, long names without dashes (mem: 0)."""
    srun: list[str] = field(default_factory=list)
    """Further srun options of every step."""
    setup: list[str] = field(default_factory=list)
    """Shell lines of the batch script before the driver (module load ...)."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment of every step."""
    container: ContainerConfig = field(default_factory=ContainerConfig)
    ports: PortsConfig = field(default_factory=PortsConfig)
    budgets: BudgetsConfig = field(default_factory=BudgetsConfig)
    preflight: PreflightConfig = field(default_factory=PreflightConfig)
    login_sees_models: bool = True
    """Whether models can be checked where the launcher runs; else the preflight does."""
    cache_dir: str = "/tmp"
    """Node-local folder for compile caches: <cache_dir>/launcher-<uid>/<run>/<worker>, 0700."""
    keep_caches: bool = False
    """Whether compile and JIT caches outlive the run, one folder for each (image, model, flags):
    <cache_dir>/launcher-<uid>-caches/<hash>/<worker>; removed when unused for 30 days."""
    stage: StageConfig = field(default_factory=StageConfig)
    log_limit_mb: float = 300.0
    """Size of one process's logs, MB; of a longer one the beginning and the end are kept."""
    sample_s: float = 1.0
    """Seconds between two looks at every engine's and the router's metrics while the run measures
    (docs/find-the-bottleneck.md); 0: none. A page that takes long is asked for more rarely, so
    that no process spends more than 5 % of its time on it."""
    min_free_disk_gb: float = 1.0
    """Free space the preflight wants in the results folder and the cache folder, GB."""


@dataclass
class RoleConfig:
    """The shape of one role: `endpoints` copies of a tp x pp x dp engine."""

    endpoints: int = 1
    tp: int = 1
    pp: int = 1
    dp: int = 1
    """Data-parallel ranks of one endpoint; with expert_parallel EP = tp * dp."""
    expert_parallel: bool = True
    load_balancing: str = "hybrid"
    """hybrid | internal, for endpoints over several nodes. hybrid: every node answers HTTP for its
    own ranks; internal: the first node answers for all, the others are headless."""
    flags: dict[str, Any] = field(default_factory=dict)
    """Engine flags of this topology's role; last of all layers."""


@dataclass
class TopologyConfig:
    """Roles and how they share nodes."""

    roles: dict[str, RoleConfig] = field(default_factory=dict)
    """prefill + decode, or aggregated alone."""
    share_nodes: bool = False
    """Whether ranks of different roles may share a node."""


@dataclass
class ModelFacts:
    """Architecture numbers of a model, from which capacity is computed. null = not applicable."""

    layers: int | None = None
    attention_layers: int | None = None
    gdn_layers: int | None = None
    hidden_size: int | None = None
    attention_heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    gdn_value_heads: int | None = None
    gdn_key_heads: int | None = None
    gdn_head_dim: int | None = None
    gdn_conv_kernel: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    shared_experts: int | None = None
    moe_intermediate_size: int | None = None
    mtp_layers: int | None = None
    max_position: int | None = None
    dtype: str | None = None
    """Dtype of weights that are not quantised, and of activations (HF config dtype)."""
    kv_cache_dtype: str | None = None
    """What kv-cache-dtype `auto` stands for: fp8 or nvfp4 where the checkpoint declares it
    (kv_cache_quant_algo), auto where it is known to declare nothing."""
    ssm_dtype: str | None = None
    """State dtype that `auto` stands for (HF config mamba_ssm_dtype)."""
    expert_params: float | None = None
    """Parameters in routed experts."""
    other_params: float | None = None
    """All other parameters, MTP left out."""
    expert_bytes_per_param: float | None = None
    other_bytes_per_param: float | None = None


@dataclass
class ExpectedConfig:
    """What the estimate of a run's time assumes; null: not known, and then there is none."""

    tokens_per_s_per_gpu: float | None = None
    """Total tokens (input + output) per second and serving GPU at saturation."""
    tpot_ms: float | None = None
    """Milliseconds per output token of one stream on an idle deployment."""
    start_s: float | None = None
    """Seconds until all workers serve; null: a third of cluster.budgets.start_s."""


@dataclass
class ModelConfig:
    """What is served."""

    served_name: str = MISSING
    path: str = MISSING
    """Local (or staged) folder with config.json, tokenizer and weights."""
    tokenizer: str | None = None
    """Tokenizer folder; null: `path`."""
    vocab_size: int = MISSING
    hybrid: bool = False
    """Whether it has linear-attention (GDN, Mamba) layers."""
    flags: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    gsm8k_reference: float | None = None
    """Published GSM8K accuracy under the protocol of accuracy=gsm8k (0..1)."""
    facts: ModelFacts = field(default_factory=ModelFacts)
    expected: ExpectedConfig = field(default_factory=ExpectedConfig)
    sources: dict[str, str] = field(default_factory=dict)
    """Where each number comes from."""
    unconfirmed: list[str] = field(default_factory=list)
    """What no source confirms."""


@dataclass
class FlagsConfig:
    """A named set of engine flags; null removes a flag, a mapping becomes JSON."""

    all: dict[str, Any] = field(default_factory=dict)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)
    """Names of flags and VLLM_* variables passed without a check against the release's table: those
    of a custom build or of a plug-in."""
    capture_rule: bool = False
    """Whether decode's max-cudagraph-capture-size follows the highest concurrency (cc/ranks + 128)
    where the release's own limit is lower."""


@dataclass
class EngineConfig:
    """Which server program, which release, where it lives."""

    name: str = MISSING
    kind: str = MISSING
    """vllm | rehearsal: the file under launcher/engines/."""
    release: str = MISSING
    """Release of the engine in the image or environment, as X.Y.Z."""
    env_dir: str | None = None
    """Environment that holds the engine when no container is used (its bin/ is used)."""
    device: str = "cuda"
    """cuda | cpu | none."""
    memory_reserve_gib: float = 8.0
    """GiB of each GPU that capacity keeps for activations and CUDA graphs. vLLM measures this at
    start-up; 6 to 10 is the range expected for the published model, and no measurement of ours."""
    client: str = MISSING
    """Benchmark client used unless workload.client says otherwise."""
    flags: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the rehearsal engine's own server."""


@dataclass
class RouterConfig:
    """The router in front of the workers (vllm-router)."""

    executable: str | None = None
    """Path of vllm-router on the nodes; null: beside cluster.python, outside any container."""
    policy: str = "round_robin"
    flags: dict[str, Any] = field(default_factory=dict)


@dataclass
class SharedPrefixConfig:
    """Beginnings that prompts have in common (source shared_prefix)."""

    tokens: int = 1024
    """Tokens of each prompt that it shares, special tokens and template included."""
    groups: int = 1
    """Different beginnings; a request has one of them at random."""


@dataclass
class MultiTurnConfig:
    """Sessions of several messages, sent to the chat endpoint (source multi_turn)."""

    turns: int = 4
    """User messages of a session; isl and osl are one turn's."""
    wait_s: float = 0.0
    """Seconds between an answer and the session's next message."""


@dataclass
class TraceConfig:
    """A recorded trace to be replayed (source trace): arrival times, lengths, shared blocks."""

    path: str | None = None
    """JSON lines in Mooncake's format: timestamp (ms), input_length, output_length, hash_ids."""
    speed: float = 1.0
    """Times are divided by it: 2 sends twice as fast."""
    block_tokens: int = 512
    """Tokens that one of hash_ids stands for."""


@dataclass
class GoodputConfig:
    """Limits of a good request; null: no limit. Goodput is the share of requests within them."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass
class WorkloadConfig:
    """The load: lengths in tokens, one point per concurrency."""

    isl: int = MISSING
    osl: int = MISSING
    range_definition: str = "inferencemax"
    """inferencemax: U[int(r*L), L]; vllm: U[floor(L(1-r)), ceil(L(1+r))]."""
    range_ratio: float = 1.0
    concurrency: list[int] = MISSING
    prompts_per_concurrency: float = 8.0
    warmup_per_concurrency: float = 1.0
    warmup_rate: float | None = None
    """Requests a second of the warm-up wave, as sa-bench sends it (250), at most `concurrency` at a
    time; null: a closed loop."""
    repeats: int = 1
    """How often each point is measured, each time with other prompts; 2 or more give intervals."""
    seed: int = 0
    """Point i uses seed + i, so that no point repeats another's prompts."""
    request_rate: float | None = None
    """Requests a second, at most `concurrency` at a time; null: a closed loop of `concurrency`."""
    burstiness: float = 1.0
    """Of request_rate: gamma shape of the gaps; 1: Poisson process, below: burstier."""
    client_processes: int = 0
    """Processes of the native client; 0: as many as the streams need (docs/load-client.md)."""
    stall_timeout_s: float = 900.0
    """Native client: a request during which nothing comes for so long has failed."""
    client: str | None = None
    """vllm_bench | native; null: engine.client."""
    vllm_bench_json: bool = False
    """Whether each point is also kept as the file that `vllm bench serve --save-result
    --save-detailed` writes: vllm-bench/<index>-<point>.json of the run directory."""
    request_timeout_s: float = 3600.0
    source: str = "random"
    """random | shared_prefix | multi_turn | trace (docs/prompts.md)."""
    prompt_form: str = "auto"
    """auto | text | ids. auto: text, and token ids where the engine has no tokenizer."""
    chat_template: bool = False
    """Whether a prompt is a user message in the model's chat template, which counts as part of
    it, sent as a completion: what the published benchmark's client does by default."""
    verify_prompts: str = "auto"
    """auto | all | a number: how many prompts of a new file are encoded again (docs/prompts.md)."""
    shared_prefix: SharedPrefixConfig = field(default_factory=SharedPrefixConfig)
    multi_turn: MultiTurnConfig = field(default_factory=MultiTurnConfig)
    trace: TraceConfig = field(default_factory=TraceConfig)
    goodput: GoodputConfig = field(default_factory=GoodputConfig)


@dataclass
class AccuracyConfig:
    """Questions asked after the sweep."""

    dataset: str = "none"
    """gsm8k | word_problems | none."""
    data_dir: str | None = None
    """Folder with GSM8K's test.jsonl and train.jsonl (fields question, answer)."""
    repeats: int = 1
    num_questions: int | None = None
    """null: all."""
    num_shots: int = 5
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int = 42
    stop: list[str] = field(default_factory=list)
    concurrency: int = 512
    timeout_s: float = 600.0
    retries: int = 3
    tolerance: float = 0.03


@dataclass
class CanaryConfig:
    """Proof, before the sweep, that KV crosses NIXL and that the state is right."""

    enabled: bool = True
    prompts: int = 8
    tokens: int = 16
    prompt_tokens: int = 300
    form: str = "auto"
    """auto | exact | band. auto: exact where both roles have equal dp and tp and no flag differs
    that changes kernels, else band."""


@dataclass
class SweepConfig:
    """A multirun (-m): which combinations, in which order, how many jobs at a time."""

    zip: list[list[str]] = field(default_factory=list)
    """Axes that move together, as in [[topology,workload.concurrency]]; the others multiply."""
    skip_invalid: bool = False
    """Whether impossible combinations are left out, and listed, instead of stopping the sweep."""
    rerun: bool = False
    """Whether points that were measured already, of the same deployment and load, run again."""
    order: str = "cheapest"
    """cheapest | as_given. cheapest: by nodes x estimated time."""
    max_jobs: int | None = None
    """Jobs at a time (each waits for an earlier one by --dependency=afterany); null: no limit."""
    table: bool = True
    """Whether a small job writes the sweep's tables after the last one."""
    table_sbatch: dict[str, Any] = field(default_factory=dict)
    """sbatch options of that job, over its own: one task, no GPU, cluster's account ... exclude."""


@dataclass
class LaunchConfig:
    """The whole of one run."""

    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    topology: TopologyConfig = field(default_factory=TopologyConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    flags: FlagsConfig = field(default_factory=FlagsConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    router: RouterConfig = field(default_factory=RouterConfig)
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    accuracy: AccuracyConfig = field(default_factory=AccuracyConfig)
    canary: CanaryConfig = field(default_factory=CanaryConfig)
    sweep: SweepConfig = field(default_factory=SweepConfig)
    name: str | None = None
    """Label of the run; null: the topology's name."""
    dry_run: str = "false"
    """false | true (for people) | json (one document on stdout)."""
    check: str = "warn"
    """warn | strict. Errors always stop; warnings are printed, or with strict stop as well."""
    on_bad_node: str = "stop"
    """stop | exclude. A node that fails the preflight stops the run; with exclude the job is
    submitted once more without it, into the same run directory."""
    wait: str = "auto"
    """auto | true | false: stay until the run has ended, follow its log, print the table.
    auto: yes on `local`, no on Slurm."""
    allow_dirty: bool = False
    """Whether a checkout with uncommitted changes may be submitted (their diff is kept)."""


def register() -> None:
    """Make LaunchConfig known to Hydra as `launch_schema`, the base of conf/config.yaml."""
    ConfigStore.instance().store(name="launch_schema", node=LaunchConfig)
