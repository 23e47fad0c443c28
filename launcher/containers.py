"""How a command gets into its container: srun options (pyxis) or a prefix (apptainer)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from launcher.schema import ContainerConfig

SECRET_ENV = ("VLLM_API_KEY", "OPENAI_API_KEY")
"""Set in the driver's environment only, and let through by name."""

Entry = tuple[list[str], list[str]]
"""(srun options, command)"""


def _none(_: ContainerConfig, __: Sequence[str], command: list[str]) -> Entry:
    return [], command


def _pyxis(container: ContainerConfig, mounts: Sequence[str], command: list[str]) -> Entry:
    """pyxis/enroot: options of srun itself (NVIDIA/pyxis README)."""
    options = [
        f"--container-image={container.image}",
        f"--container-env={','.join(SECRET_ENV)}",
        "--no-container-mount-home",
        "--no-container-remap-root",
    ]
    if mounts:
        options.append(f"--container-mounts={','.join(mounts)}")
    return [*options, *container.options], command


def _apptainer(container: ContainerConfig, mounts: Sequence[str], command: list[str]) -> Entry:
    """apptainer exec with the host's GPUs; host environment passes, so secrets need no option."""
    binds = [part for mount in mounts for part in ("--bind", mount)]
    prefix = ["apptainer", "exec", "--nv", *binds, *container.options, str(container.image)]
    return [], [*prefix, *command]


CONTAINERS: dict[str, Callable[[ContainerConfig, Sequence[str], list[str]], Entry]] = {
    "none": _none,
    "pyxis": _pyxis,
    "apptainer": _apptainer,
}


def enter_container(container: ContainerConfig, mounts: Sequence[str], command: list[str]) -> Entry:
    """srun options and command that run `command` inside the configured container."""
    return CONTAINERS[container.kind](container, [*container.mounts, *mounts], command)
