"""slurmdbd and its private MariaDB, so that sacct works."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster import config
from tests.cluster.errors import ClusterError
from tests.cluster.install import tool_path
from tests.cluster.processes import Started, spawn, wait_until
from tests.cluster.spec import ClusterSpec

GRANTS = (
    f"create database if not exists {config.DATABASE};"
    "create user if not exists slurm@'127.0.0.1' identified by 'slurm';"
    f"grant all on {config.DATABASE}.* to slurm@'127.0.0.1';"
)
SMALL = ["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M"]


def start(
    spec: ClusterSpec, user: str, env: Mapping[str, str], record: Callable[[Started], None]
) -> None:
    """Create the database, start both daemons, tell slurmdbd of the cluster."""
    _start_database(spec, user, env, record)
    path = spec.directory / "slurmdbd.conf"
    path.touch(mode=0o600)
    path.write_text(config.slurmdbd_conf(spec, user=user))
    output = spec.directory / "log/slurmdbd.out"
    record(spawn("slurmdbd", [f"{spec.prefix}/usr/sbin/slurmdbd", "-D"], env, output))
    add = [f"{spec.prefix}/usr/bin/sacctmgr", "-i", "add", "cluster", "nvl72test"]
    if not wait_until(lambda: _succeeds(add, env, output), 30, every_s=0.2):
        raise ClusterError(f"slurmdbd does not answer; see {output} and slurmdbd.log there")


def _start_database(
    spec: ClusterSpec, user: str, env: Mapping[str, str], record: Callable[[Started], None]
) -> None:
    d = spec.directory
    output, socket = d / "log/mariadb.log", d / "mysql.sock"
    data = ["--no-defaults", f"--datadir={d}/mysql", f"--user={user}"]
    make = ["mariadb-install-db", *data, "--auth-root-authentication-method=normal",
            "--skip-test-db", "--skip-name-resolve", *SMALL]  # fmt: skip
    if not _succeeds(make, env, output):
        raise ClusterError(f"mariadb-install-db failed; see {output}")
    serve = [str(tool_path("mariadbd")), *data, f"--socket={socket}",
             f"--pid-file={d}/mariadbd.pid", "--bind-address=127.0.0.1",
             f"--port={spec.dbd_port + 1}", *SMALL, "--innodb-lock-wait-timeout=900",
             "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--skip-name-resolve",
             "--performance-schema=OFF"]  # fmt: skip
    record(spawn("mariadbd", serve, env, output))
    grant = ["mariadb", "--no-defaults", "-uroot", f"--socket={socket}", "-e", GRANTS]
    if not wait_until(lambda: _succeeds(grant, env, d / "log/grants.log"), 30):
        raise ClusterError(f"mariadbd does not answer; see {output}")


def _succeeds(argv: list[str], env: Mapping[str, str], output: Path) -> bool:
    program = tool_path(argv[0]) if os.sep not in argv[0] else argv[0]
    with output.open("ab") as sink:
        line = [str(program), *argv[1:]]
        return subprocess.run(line, env=env, stdout=sink, stderr=sink, check=False).returncode == 0
