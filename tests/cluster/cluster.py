"""Start, stop and disturb one Slurm cluster; everything it does is written in its directory."""

import fcntl
import getpass
import json
import logging
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Self, TextIO

from tests.cluster import accounting, cgroups, config, network
from tests.cluster.errors import ClusterError
from tests.cluster.install import SYSTEM_PATH, is_installed, tool_path
from tests.cluster.processes import (
    Started,
    all_pids,
    environment,
    kill,
    observe,
    parent,
    reap,
    spawn,
    stop,
    wait_until,
)
from tests.cluster.spec import ClusterSpec

log = logging.getLogger(__name__)

LOCK = Path("/tmp/nvl72-test-slurm.lock")
"""Held while a cluster starts or stops; its text is the directory of the last one started."""
SHAPE, STARTED = "cluster.json", "started.jsonl"
IDLE_S = 180.0
"""Seconds are enough on two idle cores; a crowded machine had 10 of 36 nodes after a minute."""


class Cluster:
    """One cluster. At most one is up on a machine."""

    def __init__(self, spec: ClusterSpec | None = None) -> None:
        self.spec = spec or ClusterSpec()

    @classmethod
    def at(cls, directory: Path) -> Self:
        """The cluster that was started in `directory`."""
        path = directory / SHAPE
        if not path.is_file():
            raise ClusterError(f"no cluster in {directory} ({SHAPE} is not there); start one: up")
        shape = json.loads(path.read_text())
        shape.update({name: Path(shape[name]) for name in ("directory", "prefix")})
        return cls(ClusterSpec(**shape))

    def installed(self) -> bool:
        """True when `install` has put Slurm into the prefix."""
        return is_installed(self.spec.prefix)

    def env(self) -> dict[str, str]:
        """The environment in which sbatch, srun, squeue, sacct... talk to this cluster."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
        return {**kept, **self.exports()}

    def exports(self) -> dict[str, str]:
        """What `up` adds to an environment."""
        ours = [f"{self.spec.prefix}/usr/bin", f"{self.spec.prefix}/usr/sbin"]
        rest = [p for p in os.environ.get("PATH", SYSTEM_PATH).split(":") if p not in ours]
        return {"SLURM_CONF": str(self.spec.slurm_conf), "PATH": ":".join([*ours, *rest])}

    def is_up(self) -> bool:
        """True while its slurmctld lives."""
        return any(p.name == "slurmctld" and p.is_alive() for p in self.daemons())

    def daemons(self) -> list[Started]:
        """Every daemon that was started, alive or not."""
        path = self.spec.directory / STARTED
        if not path.is_file():
            return []
        return [Started(**json.loads(line)) for line in path.read_text().splitlines()]

    def up(self) -> None:
        """Start everything and return when all nodes are idle; what a crash left is removed."""
        if not self.installed():
            raise ClusterError(
                f"no Slurm in {self.spec.prefix}; next: python -m tests.cluster install"
            )
        with _one_at_a_time() as lock:
            _refuse_a_second(lock)
            self._clean()
            self._remove_files(keep=[])
            lock.seek(0)
            lock.truncate()
            lock.write(str(self.spec.directory))
            lock.flush()
            try:
                self._start()
            except BaseException:
                self._clean()
                raise
        log.info("%d nodes idle in %s", self.spec.nodes, self.spec.directory)

    def down(self) -> None:
        """Stop everything, look that it is gone, remove namespaces and cgroups. Logs stay."""
        with _one_at_a_time():
            if self.is_up():
                self._end_jobs()
            self._clean()
        log.info("down: %s", self.spec.directory)

    def crash_node(self, name: str) -> None:
        """Power loss: SIGKILL to the node's slurmd and to every process on it."""
        self.spec.check_node(name)
        slurmd = [p for p in self.daemons() if p.name == f"slurmd {name}" and p.is_alive()]
        kill([*slurmd, *self._processes_on([name])])

    def start_node(self, name: str) -> None:
        """Power on: start the node's slurmd again."""
        self.spec.check_node(name)
        if any(p.name == f"slurmd {name}" and p.is_alive() for p in self.daemons()):
            raise ClusterError(f"slurmd of {name} is alive")
        self._start_slurmd(name)

    def drain(self, name: str) -> None:
        """No new jobs on the node; running ones go on."""
        self.spec.check_node(name)
        self.run("scontrol", "update", f"nodename={name}", "state=drain", "reason=drained by hand")

    def resume(self, name: str) -> None:
        """Give a drained or crashed node back to Slurm."""
        self.spec.check_node(name)
        self.run("scontrol", "update", f"nodename={name}", "state=resume")

    def kill_controller(self) -> None:
        """SIGKILL to slurmctld: nobody answers sbatch, squeue and srun; jobs and steps go on."""
        kill([p for p in self.daemons() if p.name == "slurmctld" and p.is_alive()])

    def stop_controller(self) -> None:
        """SIGTERM to slurmctld: it saves its state first. Killed, it forgets its youngest jobs."""
        stop([p for p in self.daemons() if p.name == "slurmctld"], 20)

    def start_controller(self) -> None:
        """Start slurmctld (again) on its saved state; returns when it answers."""
        d = self.spec.directory
        controller = [f"{self.spec.prefix}/usr/sbin/slurmctld", "-D"]
        if self.spec.namespaces:
            controller = network.named(d, controller)
        log_path = d / "log/slurmctld.out"
        self._record(spawn("slurmctld", controller, self._daemon_env(), log_path))
        if not wait_until(self._controller_answers, 30, every_s=0.1):
            raise ClusterError(f"slurmctld does not answer; see {d}/log/slurmctld.log")

    def kill_accounting(self) -> None:
        """SIGKILL to slurmdbd: sacct has no answer; slurmctld keeps its records for later."""
        kill([p for p in self.daemons() if p.name == "slurmdbd" and p.is_alive()])

    def start_accounting(self) -> None:
        """Start slurmdbd again."""
        d = self.spec.directory
        argv = [f"{self.spec.prefix}/usr/sbin/slurmdbd", "-D"]
        self._record(spawn("slurmdbd", argv, self._daemon_env(), d / "log/slurmdbd.out"))

    def set_plugged(self, name: str, *, plugged: bool) -> None:
        """Pull or plug the node's network cable; needs namespaces."""
        self.spec.check_node(name)
        network.set_plugged(name, plugged=plugged)

    def run(self, *argv: str, timeout_s: float = 60) -> str:
        """What a Slurm command prints; raises with its error text when it fails."""
        program = shutil.which(argv[0], path=self.env()["PATH"]) or argv[0]
        done = subprocess.run(
            [program, *argv[1:]], env=self.env(), capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise ClusterError(
                f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def _start(self) -> None:
        self._write_files()
        d, env = self.spec.directory, self._daemon_env()
        munge = [str(tool_path("munged")), "-F", f"--socket={self.spec.munge_socket}",
                 f"--key-file={d}/munge.key", f"--log-file={d}/log/munged.log",
                 f"--pid-file={d}/munged.pid", f"--seed-file={d}/munged.seed",
                 "--num-threads=4"]  # fmt: skip
        self._record(spawn("munged", munge, env, d / "log/munged.out"))
        if not wait_until(self.spec.munge_socket.exists, 10):
            raise ClusterError(f"munged does not answer; see {d}/log/munged.out")
        with ThreadPoolExecutor(1) as pool:
            nets = pool.submit(network.create, self.spec) if self.spec.namespaces else None
            if self.spec.accounting:
                log.info("start slurmdbd and its database")
                accounting.start(self.spec, getpass.getuser(), env, self._record)
            if nets is not None:
                nets.result()
        log.info("start slurmctld and %d slurmd", self.spec.nodes)
        self.start_controller()
        for name in self.spec.node_names:
            self._start_slurmd(name)
        if not wait_until(lambda: self._num_idle() == self.spec.nodes, IDLE_S, every_s=0.2):
            raise ClusterError(
                f"{self._num_idle()} of {self.spec.nodes} nodes idle after {IDLE_S:.0f} s; "
                f"see {d}/log:\n" + self.run("sinfo", "-R")
            )

    def _controller_answers(self) -> bool:
        try:
            return "is UP" in self.run("scontrol", "ping", timeout_s=10)
        except (ClusterError, subprocess.TimeoutExpired):
            return False

    def _num_idle(self) -> int:
        try:
            return len(set(self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()))
        except ClusterError:
            return 0

    def _start_slurmd(self, name: str) -> None:
        sbin, d = f"{self.spec.prefix}/usr/sbin", self.spec.directory
        argv = [f"{sbin}/slurmd", "-D", "-N", name, "-d", f"{sbin}/slurmstepd"]
        if self.spec.namespaces:
            argv = network.inside(name, d, argv)
        self._record(spawn(f"slurmd {name}", argv, self._daemon_env(), d / f"log/{name}.out"))

    def _daemon_env(self) -> dict[str, str]:
        """As little as a service manager gives: what steps see must come from their job."""
        kept = {k: v for k, v in os.environ.items() if k in ("HOME", "USER", "LOGNAME", "LANG")}
        path = f"{self.spec.prefix}/usr/bin:{self.spec.prefix}/usr/sbin:{SYSTEM_PATH}"
        return {**kept, "PATH": path, "SLURM_CONF": str(self.spec.slurm_conf)}

    def _record(self, process: Started) -> None:
        with (self.spec.directory / STARTED).open("a") as handle:
            handle.write(json.dumps(asdict(process)) + "\n")

    def _write_files(self) -> None:
        d, user = self.spec.directory, getpass.getuser()
        hostname = socket.gethostname().split(".")[0]
        d.mkdir(parents=True, exist_ok=True)
        shape = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self.spec).items()}
        (d / SHAPE).write_text(json.dumps(shape, indent=1) + "\n")
        for folder in ("state", "log", "dev", *(f"spool/{n}" for n in self.spec.node_names)):
            (d / folder).mkdir(parents=True, mode=0o755)
        for gpu in range(self.spec.gpus):
            (d / f"dev/nvidia{gpu}").symlink_to("/dev/null")
        key = d / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        use = cgroups.usable()
        text = config.slurm_conf(self.spec, user=user, hostname=hostname, cgroups=use)
        self.spec.slurm_conf.write_text(text)
        (d / "gres.conf").write_text(config.gres_conf(self.spec))
        (d / "topology.conf").write_text(config.topology_conf(self.spec))
        (d / "hosts").write_text(config.hosts(self.spec, hostname))
        (d / "resolv.conf").write_text(config.resolv_conf())
        if use:
            (d / "cgroup.conf").write_text(config.cgroup_conf())

    def _end_jobs(self) -> None:
        """Ask every job to end, so that programs under test can tidy up; wait a little."""
        try:
            self.run("scancel", "--full", f"--user={getpass.getuser()}", timeout_s=10)
            wait_until(lambda: not self.run("squeue", "-h", "-o", "%i", timeout_s=10), 8, 0.2)
        except (ClusterError, subprocess.TimeoutExpired) as error:
            log.warning("jobs not cancelled: %s", error)

    def _clean(self) -> None:
        """Stop what `started.jsonl` names and what lives on the nodes; leave no trace but logs."""
        daemons = self.daemons()
        stop([p for p in daemons if p.name.startswith("slurm") and p.name != "slurmdbd"], 5)
        names = sorted({*self.spec.node_names, *network.namespaces()})
        kill(list(self._processes_on(names)))
        for name in ("slurmdbd", "mariadbd", "munged"):
            stop([p for p in daemons if p.name == name], 10)
        reap()
        if cgroups.usable():
            cgroups.remove(names)
        if os.geteuid() == 0:
            network.remove()
        self._remove_files(keep=["log", SHAPE])

    def _remove_files(self, *, keep: Sequence[str]) -> None:
        d = self.spec.directory
        found = list(d.iterdir()) if d.exists() else []
        if found and not (d / SHAPE).exists():
            raise ClusterError(f"{d} is left alone: no cluster made it ({SHAPE} is not there)")
        for path in found:
            if path.name not in keep:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _processes_on(self, names: Sequence[str]) -> Iterator[Started]:
        """Tasks and slurmstepds of these nodes: by namespace, by cgroup, by what Slurm set."""
        yield from network.processes_inside([n for n in names if n in network.namespaces()])
        yield from cgroups.processes_inside(names) if cgroups.usable() else ()
        for pid in all_pids():
            task = environment(pid)
            if task.get("SLURM_CONF") != str(self.spec.slurm_conf):
                continue
            if task.get("SLURMD_NODENAME") in names:
                yield from (p for p in map(_observe, (pid, _stepd_of(pid))) if p is not None)


def _observe(pid: int) -> Started | None:
    return observe("step process", pid) if pid > 1 else None


def _stepd_of(pid: int) -> int:
    """The task's slurmstepd, or 0 when its parent is something else."""
    above = parent(pid)
    try:
        return above if Path(f"/proc/{above}/comm").read_text() == "slurmstepd\n" else 0
    except OSError:
        return 0


@contextmanager
def _one_at_a_time() -> Iterator[TextIO]:
    if not LOCK.exists():
        LOCK.touch()
        LOCK.chmod(0o666)  # whoever comes next may be another user
    with LOCK.open("r+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle


def _refuse_a_second(lock: TextIO) -> None:
    directory = Path(lock.read().strip() or "/nonexistent")
    alive = [p for p in Cluster(ClusterSpec(directory=directory)).daemons() if p.is_alive()]
    if alive:
        raise ClusterError(
            f"a cluster is up in {directory} ({len(alive)} daemons), one a machine is the limit; "
            f"next: python -m tests.cluster down --dir {directory}"
        )
