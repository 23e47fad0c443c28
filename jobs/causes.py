"""Causes that need no knowledge of the engine: exit codes, Slurm's and the system's words."""

from __future__ import annotations

import signal

from jobs.engines.dialect import FOLLOWS, Cause, rule

SLURM: tuple[Cause, ...] = (
    rule(
        r"Unable to satisfy cpu bind request|CPU binding outside of job step allocation",
        "SLURM_* variables of another job or step were inherited",
        "submit from a shell outside any allocation",
        "srun: error: Unable to satisfy cpu bind request",
    ),
    rule(
        r"cpus.per.task set by two different environment variables",
        "SLURM_CPUS_PER_TASK and SLURM_TRES_PER_TASK differ",
        "unset both; every srun of the plan has --cpus-per-task",
        "srun: fatal: cpus_per_task set by two different environment variables",
    ),
    rule(
        r"SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive",
        "memory variables of two Slurm options meet: one of another job was inherited",
        "submit from a shell outside any allocation; leave mem-per-cpu out of cluster.sbatch",
        "srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually "
        "exclusive.",
    ),
    rule(
        r"oom.kill|Out Of Memory|Detected \d+ oom",
        "the node ran out of memory (OOM kill)",
        "look at what else runs there, at /dev/shm, and at pinned or swap space of the engine",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.3. Some of the step tasks have "
        "been OOM Killed.",
    ),
    rule(
        r"DUE TO NODE FAIL|Node failure on|Lost communication",
        "a node went down",
        "leave it out with cluster.exclude and submit again; sinfo -R has the site's reason",
        "srun: error: *** STEP 77.3 ON node3 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE,",
    ),
    rule(
        r"DUE TO TIME LIMIT",
        "Slurm's time limit ended the job",
        "ask for more cluster.time, or less in one run",
        "slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT",
    ),
    rule(
        r"DUE TO PREEMPTION",
        "a job of higher priority took the nodes",
        "use another cluster.qos or partition; what was measured is kept",
        "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION",
    ),
    rule(
        r"DUE TO JOB REQUEUE|DUE TO .*REQUEUE",
        "the job was requeued",
        "it continues by itself in its next start",
        "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB REQUEUE",
    ),
    rule(
        r"Unable to create step|Task launch for .* failed|Unable to confirm allocation"
        r"|Job/step already completing",
        "Slurm did not start the step",
        "the text says why; look at cluster.srun, gpus_per_node and cpus_per_node",
        "srun: error: Unable to create step for job 77: Invalid generic resource (gres) "
        "specification",
    ),
    rule(
        r"Munge (?:de|en)code failed|Protocol authentication error|Invalid credential",
        "Slurm's authentication failed on a node",
        "its clock or munge is wrong: leave it out (cluster.exclude) and tell the site",
        "srun: error: Munge decode failed: Expired credential",
    ),
    rule(
        r"pyxis: .*(?:couldn't|failed|error|No such)|enroot.{0,20}(?:failed|error)"
        r"|could not open image",
        "the container could not be started",
        "the image must be readable on every node; pyxis prints enroot's reason above",
        "slurmstepd: error: pyxis: couldn't start container",
    ),
    rule(
        r"STEP \d+\.\d+ ON \S+ CANCELLED AT (?!.*DUE TO)",
        "the step was cancelled: somebody's scancel",
        "see who cancelled it (sacct -j JOB.STEP -o State,ExitCode)",
        "slurmstepd: error: *** STEP 77.3 ON node3 CANCELLED AT 2026-01-01T00:00:00 ***",
    ),
)

SYSTEM: tuple[Cause, ...] = (
    rule(
        r"\bMemoryError|std::bad_alloc|Cannot allocate memory",
        "the host's memory is full",
        "look at what else runs on the node, and at --mem in cluster.sbatch",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ),
    rule(
        r"Address already in use|EADDRINUSE",
        "another process holds one of the run's ports",
        "ss -ltnp on the node names it; cluster.ports moves the run's own",
        "OSError: [Errno 98] error while attempting to bind on address: Address already in use",
    ),
    rule(
        r"Cannot assign requested address",
        "a process binds an address of another node",
        "addresses must be each node's own: look for a host variable in cluster.env or flags.env",
        "OSError: [Errno 99] Cannot assign requested address",
    ),
    rule(
        r"No space left on device",
        "a disk (or /dev/shm) is full",
        "df on the node tells which; results_dir, cache_dir and /dev/shm are written to",
        "OSError: [Errno 28] No space left on device: '/tmp/cache/x'",
    ),
    rule(
        r"Disk quota exceeded",
        "your quota is used up",
        "free space, or name another cluster.results_dir or cache_dir",
        "OSError: [Errno 122] Disk quota exceeded",
    ),
    rule(
        r"Read-only file system",
        "a file system is read-only on this node",
        "look at its mounts; a failing disk is remounted so",
        "OSError: [Errno 30] Read-only file system: '/results/x'",
    ),
    rule(
        r"Stale file handle|Transport endpoint is not connected|Input/output error",
        "a shared file system went away on this node",
        "leave the node out (cluster.exclude) and tell the site",
        "OSError: [Errno 116] Stale file handle: '/models/x/config.json'",
    ),
    rule(
        r"Exec format error",
        "the program is built for another processor",
        "GB200 nodes are aarch64: use an aarch64 image or environment",
        "slurmstepd: error: execve(): /opt/engine/bin/vllm: Exec format error",
    ),
    rule(
        r"execve\(\): .*(?:No such file|not found)|: command not found|could not be started",
        "the program does not exist on this node",
        "look at engine.env_dir, cluster.python, and the container's image",
        "slurmstepd: error: execve(): vllm: No such file or directory",
    ),
    rule(
        r"GLIBC(?:XX)?_[\d.]+'? not found|undefined symbol|cannot open shared object file",
        "a library on the node is too old, missing, or of another build",
        "use the container, or an environment made on a node like this",
        "/lib/aarch64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by x.so)",
    ),
    rule(
        r"ModuleNotFoundError: |ImportError: cannot import name",
        "the step's Python environment is incomplete",
        "look at engine.env_dir or the image, and at PYTHONPATH in cluster.env",
        "ModuleNotFoundError: No module named 'vllm'",
    ),
    rule(
        r"Segmentation fault|Segfault encountered|SIGSEGV",
        "the process crashed (segmentation fault)",
        "the lines above name the library; a core file or PYTHONFAULTHANDLER=1 tells more",
        "!!!!!!! Segfault encountered !!!!!!!",
    ),
    rule(
        r"\bBus error\b|SIGBUS",
        "a mapped file or /dev/shm ran out of space",
        "look at the size of /dev/shm, also inside the container",
        "Fatal Python error: Bus error",
    ),
    rule(
        r"\bIllegal instruction\b|SIGILL",
        "the program is built for a newer processor than this node's",
        "use an image built for these nodes",
        "Fatal Python error: Illegal instruction",
    ),
    rule(
        r"Too many open files",
        "the limit of open files is too low",
        "raise the soft limit (ulimit -n) in cluster.setup",
        "OSError: [Errno 24] Too many open files",
    ),
    rule(
        r"can't start new thread|Resource temporarily unavailable",
        "the limit of processes or threads is reached",
        "raise the limit (ulimit -u) in cluster.setup, or the cgroup's pids.max",
        "RuntimeError: can't start new thread",
    ),
    rule(
        r"Name or service not known|Temporary failure in name resolution",
        "a host name cannot be resolved on this node",
        "the run passes addresses; look for a host name in the configuration",
        "socket.gaierror: [Errno -2] Name or service not known",
    ),
    rule(
        r"Permission denied",
        "a file or device is not accessible to this user",
        "the line names it; in a container it must be mounted readable",
        "PermissionError: [Errno 13] Permission denied: '/models/x/config.json'",
    ),
    rule(
        r"No route to host|Network is unreachable|Connection timed out",
        "the network between two nodes does not work",
        "ping the named address from the node; leave the node out (cluster.exclude)",
        "OSError: [Errno 113] No route to host",
        FOLLOWS,
    ),
    rule(
        r"Connection refused",
        "the process at the other end is not there (any more)",
        "look for the process that ended earliest",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        FOLLOWS,
    ),
)

CAUSES = (*SLURM, *SYSTEM)


def exit_text(code: int) -> str:
    """An exit code for people: rc 1, SIGKILL (-9), 137 (SIGKILL)."""
    name = signal_name(code)
    if not name:
        return f"rc {code}"
    return name if code < 0 else f"rc {code} ({name})"


def signal_name(code: int) -> str:
    """The signal that a code tells of, by itself or as 128 + its number; or nothing."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    try:
        return signal.Signals(number).name if number else ""
    except ValueError:
        return ""


BY_SIGNAL = {
    "SIGKILL": (
        "killed by SIGKILL",
        "look for out-of-memory on the node (dmesg, sacct), or somebody's kill or scancel",
    ),
    "SIGTERM": ("asked to end by somebody's SIGTERM", "look for a kill or scancel of this step"),
    "SIGSEGV": (
        "it crashed (segmentation fault)",
        "a core file or PYTHONFAULTHANDLER=1 tells more",
    ),
    "SIGABRT": ("it aborted itself", "its log's last lines have the failed check"),
    "SIGBUS": ("it crashed (bus error)", "look at the size of /dev/shm, also in the container"),
    "SIGILL": (
        "it is built for another processor than this node's",
        "use an image built for these nodes",
    ),
}
BY_CODE = {
    0: (
        "it ended by itself although it should serve until the end of the run",
        "its log may tell who asked it to",
    ),
    2: ("its command line was refused", "its log names the argument"),
    126: ("its program may not be executed", "look at the file's rights and its processor"),
    127: ("its program was not found", "look at engine.env_dir, cluster.python and the image"),
}


def exit_cause(code: int) -> tuple[str, str] | None:
    """What an exit code alone tells, and what to try."""
    return BY_SIGNAL.get(signal_name(code)) or BY_CODE.get(code)
