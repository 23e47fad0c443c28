"""What a user may add to the plan's own sbatch and srun options, and how Slurm's words look."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.schema import LaunchConfig

OWNED_SRUN = {
    **{"nodes": "N", "ntasks": "n", "nodelist": "w", "exclude": "x", "relative": "r"},
    **{"cpus-per-task": "c", "tres-per-task": "", "ntasks-per-node": "", "gpus-per-task": ""},
    **{"job-name": "J", "jobid": "", "output": "o", "error": "e", "input": "i", "label": "l"},
    **{"export-file": "", "multi-prog": "", "pty": "", "exclusive": "", "exact": ""},
    **{"nodefile": "F", "wrap": "", "test-only": "", "dependency": "d"},
}
"""Long names and letters of srun's options that place a step or carry its output (srun(1))."""

BARE_LETTERS = "EHkKlOQqsuvVXZ"
"""Letters of srun's options that take no value (srun(1))."""
SBATCH_NAME = re.compile(r"[a-z][a-z0-9]+(?:[-_][a-z0-9]+)*")
UNTOLD_SBATCH = {
    "wait": "sbatch would not return; use wait=true",
    "parsable": "the launcher reads sbatch's usual answer",
    "test-only": "no job would be submitted; use dry_run=true",
    "nodefile": "the launcher chooses by topology; use cluster.exclude",
}
NUMBERS = r"[0-9]+(?:-[0-9]+)?"
BRACKETS = rf"\[{NUMBERS}(?:,{NUMBERS})*\]"
NODE = rf"(?:[A-Za-z0-9._-]|{BRACKETS})+"
NODE_LIST = re.compile(rf"{NODE}(?:,{NODE})*")
RANGE = re.compile(r"([0-9]+)-([0-9]+)")
NOTHING = ("None", "(null)", "None assigned", "n/a", "N/A")
"""What Slurm prints, and Python, where there is nothing."""


def srun_options(config: LaunchConfig) -> Iterator[str]:
    """Options in cluster.srun that would undo what the plan says of a step.

    srun takes the last of two equal options, and abbreviations of long names.
    """
    takes_value = False
    for index, word in enumerate(config.cluster.srun):
        where = f"cluster.srun[{index}]={word!r}"
        name, given, value = word.partition("=")
        if not word.startswith("-") or word in ("-", "--"):
            if not takes_value:
                yield f"{where}: no option: srun would run it in place of the step's own program"
            takes_value = False
            continue
        letter = len(word) == 2 and word[1] not in BARE_LETTERS
        takes_value = not given and (word.startswith("--") or letter)
        if name == "--export":
            if given and value.split(",")[0] != "ALL":
                yield (
                    f"{where}: without ALL the step loses every other variable (PATH, VLLM_..., "
                    "the run's key); write --export=ALL,NAME=value, or use cluster.env"
                )
        elif owned := _owned(name):
            yield (
                f"{where}: the launcher sets --{owned} of every step; use the topology, "
                "cluster.cpus_per_node, cluster.exclude or cluster.env"
            )


def _owned(name: str) -> str:
    """The owned option that a word like --nodel, --nodelist, -w or -w3 means; "" for others."""
    if name.startswith("--"):
        long = name[2:]
        return next((it for it in OWNED_SRUN if long and it.startswith(long)), "")
    return next((it for it, letter in OWNED_SRUN.items() if letter == name[1:2]), "")


def sbatch_names(config: LaunchConfig) -> Iterator[str]:
    """Names under cluster.sbatch that are no long options, or that submission cannot do with."""
    for raw in config.cluster.sbatch:
        name = raw.replace("_", "-")
        if not SBATCH_NAME.fullmatch(raw):
            yield (
                f"cluster.sbatch.{raw}: no long option's name: two or more small letters, digits "
                "and dashes, without leading dashes, as in mem or cpus-per-gpu (sbatch(1))"
            )
        elif name in UNTOLD_SBATCH:
            yield f"cluster.sbatch.{raw}: {UNTOLD_SBATCH[name]}"


def node_lists(config: LaunchConfig) -> Iterator[str]:
    """cluster.exclude as Slurm reads it: names and brackets, or a file's path."""
    text = config.cluster.exclude
    if not text or "/" in text:
        return
    if not NODE_LIST.fullmatch(text) or text in NOTHING:
        yield (
            f"cluster.exclude={text!r}: no list of nodes; allowed: names and ranges without "
            "blanks, as in 'gb200-[01-03,07],login1', a file's path, or null"
        )
    for first, last in RANGE.findall("".join(re.findall(BRACKETS, text))):
        if int(first) > int(last):
            yield f"cluster.exclude={text!r}: {first}-{last} is no range from low to high"


def nothing_words(config: LaunchConfig) -> Iterator[str]:
    """`None` typed where null is meant, or blanks: Slurm would look for an account so named."""
    for key in ("account", "partition", "qos", "reservation", "dependency"):
        value = getattr(config.cluster, key)
        if value is None:
            continue
        if value in NOTHING:
            yield f"cluster.{key}={value}: where nothing is meant write null"
        elif value.strip() != "???" and (value != value.strip() or not value):
            yield f"cluster.{key}={value!r}: has blanks around it; allowed: Slurm's own word, null"


def shares_nodes(config: LaunchConfig) -> Iterator[str]:
    """Options by which a job may be given a part of its nodes, or other jobs may run there."""
    given = {name.replace("_", "-"): value for name, value in config.cluster.sbatch.items()}
    key = next((name for name in ("exclusive", "oversubscribe") if name in given), None)
    if key is None or (key == "exclusive" and given[key] is True):
        return
    shown = "null" if given[key] is None else str(given[key]).lower()
    yield (
        f"cluster.sbatch.{key}={shown}: the job may share its nodes: it may be given few of their "
        "CPUs, and others' work is in its figures; leave the option out to measure (--exclusive)"
    )


def drops_environment(config: LaunchConfig) -> Iterator[str]:
    """sbatch --export without ALL: what the launching shell exports does not reach the job."""
    for name, value in config.cluster.sbatch.items():
        if name == "export" and str(value).split(",")[0] != "ALL":
            yield (
                f"cluster.sbatch.export={value}: variables of the shell that launches (HF_TOKEN, "
                "HF_HOME, proxies) do not reach the job; write 'ALL,NAME=value', or leave it out"
            )
