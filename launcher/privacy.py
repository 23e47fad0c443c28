"""What must not stand in a configuration, because commands, records and `ps` show it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.schema import LaunchConfig

SECRET_NAME = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|APIKEY|AUTH)(_|$)|(API|ACCESS|PRIVATE)_?KEY"
    r"(_|$)",
    re.IGNORECASE,
)
PUBLIC_NAMES = ("HF_TOKEN_PATH", "SSH_AUTH_SOCK")


def secret_settings(config: LaunchConfig) -> Iterator[str]:
    """Variables that are secret by name, and flags that carry a token; values are not echoed."""
    layers = {"cluster.env": config.cluster.env, "engine.env": config.engine.env}
    layers |= {"model.env": config.model.env, "flags.env": config.flags.env}
    for where, env in layers.items():
        for name in sorted(env):
            if SECRET_NAME.search(name) and name not in PUBLIC_NAMES:
                yield (
                    f"{where}.{name}: a secret in the configuration would stand in commands and "
                    f"records; export {name} in the shell that launches: the job inherits it"
                )
    flags = {"engine.flags": config.engine.flags, "model.flags": config.model.flags}
    flags |= {"flags.all": config.flags.all}
    flags |= {f"flags.roles.{role}": given for role, given in config.flags.roles.items()}
    for role, shape in config.topology.roles.items():
        flags[f"topology.roles.{role}.flags"] = shape.flags
    for where, given in flags.items():
        for name in sorted(given or {}):
            if name.replace("_", "-").lower() == "hf-token":
                yield (
                    f"{where}.{name}: a token on the command line is shown by ps; export HF_TOKEN "
                    "in the shell that launches: the job inherits it"
                )
