"""Texts that YAML turned into booleans or numbers on their way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from launcher.schema import LaunchConfig

BOOLEANS = ("True", "False")
STRICT_PREFIXES = ("UCX_", "NCCL_", "VLLM_", "NIXL_", "GLOO_", "NVIDIA_", "CUDA_", "HF_")
"""Variables whose readers know 0, 1, y or n, and stumble over the word True."""
BARE_SBATCH = frozenset(
    {
        *("contiguous", "exclusive", "get-user-env", "hold", "nice", "no-kill", "overcommit"),
        *("oversubscribe", "quiet", "reboot", "spread-job", "use-min-nodes", "verbose"),
    }
)
"""Options of sbatch that can stand without a value (sbatch(1), Slurm 24.11)."""
TIMES_SBATCH = ("time-min", "begin", "deadline")


def env_layers(config: LaunchConfig) -> dict[str, Mapping[str, str]]:
    """Key -> environment of every layer."""
    layers: dict[str, Mapping[str, str]] = {"cluster.env": config.cluster.env}
    layers |= {"engine.env": config.engine.env, "model.env": config.model.env}
    return layers | {"flags.env": config.flags.env}


def _booleans(config: LaunchConfig, strict: bool) -> Iterator[str]:
    for where, env in env_layers(config).items():
        for name, value in env.items():
            if value in BOOLEANS and name.startswith(STRICT_PREFIXES) == strict:
                yield (
                    f"{where}.{name}={value}: YAML reads on, yes and true as booleans, and the "
                    f"program would be given the word {value}; write what it expects in quotes, "
                    'as in "1" or "y"'
                )


def env_booleans(config: LaunchConfig) -> Iterator[str]:
    """Variables whose readers do not take the word True."""
    yield from _booleans(config, strict=True)


def env_booleans_elsewhere(config: LaunchConfig) -> Iterator[str]:
    """Variables whose readers may take the word True."""
    yield from _booleans(config, strict=False)


def sbatch_values(config: LaunchConfig) -> Iterator[str]:
    """Options of sbatch that YAML changed: on for a text, off for anything, 5400 for a time."""
    for raw, value in config.cluster.sbatch.items():
        name, where = raw.replace("_", "-"), f"cluster.sbatch.{raw}"
        if value is False:
            yield f"{where}=false: options have no off form; leave it out, or set null"
        elif value is True and name not in BARE_SBATCH:
            yield (
                f"{where}=true: the option takes a text (YAML reads on and yes as booleans); put "
                f"it in quotes; options without a value: {', '.join(sorted(BARE_SBATCH))}"
            )
        elif name in TIMES_SBATCH and isinstance(value, int):
            yield f"{where}={value}: a time in quotes is meant (YAML makes 1:30:00 the number 5400)"
