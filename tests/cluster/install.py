"""Slurm 24.11 on Debian 12: Debian 13's packages unpacked in a private prefix, glibc included.

Debian 12's own Slurm has no block topology, the one thing this cluster exists to show. Nothing of
the prefix is seen by the rest of the machine; only the small tools around it come by apt.
"""

import fcntl
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.mirror import machine_mirror

log = logging.getLogger(__name__)

SUITE = "trixie"
SLURM_PACKAGES = [
    "slurmctld",
    "slurmd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurmdbd",
    "slurm-wlm-mysql-plugin",
]
# fmt: off
LIBRARY_PACKAGES = [
    "libc6", "libgcc-s1", "libstdc++6", "libhwloc15", "liblz4-1",
    "libnuma1", "libpam0g", "libreadline8t64", "libtinfo6", "libdbus-1-3",
    "libjson-c5", "libjwt2", "libmunge2", "liblua5.1-0", "libyaml-0-2",
    "libmariadb3", "libaudit1", "libcap-ng0", "libxxhash0", "libsystemd0",
    "libcap2", "libzstd1", "libssl3t64", "zlib1g", "libjansson4",
    "libb64-0d", "libudev1", "libcrypt1", "openssl-provider-legacy",
]
# fmt: on
MACHINE_PACKAGES = {
    "munged": "munge",
    "patchelf": "patchelf",
    "mariadbd": "mariadb-server-core",
    "mariadb": "mariadb-client-core",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
STAMP = "nvl72-test-slurm.stamp"
STAMP_TEXT = f"1 {SUITE} {' '.join(SLURM_PACKAGES + LIBRARY_PACKAGES)}\n"
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def default_prefix() -> Path:
    """Where Slurm goes: /opt for root, the user's cache otherwise."""
    if os.geteuid() == 0:
        return Path("/opt/nvl72-test-slurm")
    return Path.home() / ".cache/nvl72-test-slurm"


def tool_path(name: str) -> str | None:
    """The path of one of the machine's own tools, /usr/sbin included; None when missing."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def missing_tools() -> list[str]:
    """Debian packages that the cluster still needs from the machine."""
    return sorted({pkg for tool, pkg in MACHINE_PACKAGES.items() if tool_path(tool) is None})


def is_installed(prefix: Path) -> bool:
    """True when `prefix` holds this version of the install and the machine has the tools."""
    stamp = prefix / STAMP
    return stamp.is_file() and stamp.read_text() == STAMP_TEXT and not missing_tools()


def install(prefix: Path) -> None:
    """Put Slurm into `prefix`; returns at once when it is there. Only missing tools need root."""
    prefix = prefix.absolute()
    if is_installed(prefix):
        log.info("already installed in %s", prefix)
        return
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(prefix.with_name(prefix.name + ".lock")):
        if is_installed(prefix):
            return
        _install_tools(missing_tools())
        scratch = prefix.with_name(prefix.name + ".new")
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            _download(scratch / "apt")
            _unpack(scratch / "apt" / "debs", scratch / "root")
            _make_runnable(scratch / "root", prefix)
            (scratch / "root" / STAMP).write_text(STAMP_TEXT)
            shutil.rmtree(prefix, ignore_errors=True)
            (scratch / "root").rename(prefix)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    log.info("installed in %s", prefix)


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _install_tools(packages: Sequence[str]) -> None:
    if not packages:
        return
    line = "apt-get install -y --no-install-recommends " + " ".join(packages)
    if os.geteuid() != 0:
        raise ClusterError(f"missing on this machine: {', '.join(packages)}; as root: {line}")
    log.info("apt: %s", " ".join(packages))
    # RUNLEVEL=1: a freshly installed munge must not start its own daemon.
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    _run(["apt-get", "-qq", "update"], quiet)
    _run([*line.split(), "-qq", "-o", "DPkg::Lock::Timeout=120"], quiet)


def _download(work: Path) -> None:
    debs = work / "debs"
    for folder in (debs, work / "lists/partial", work / "cache/archives/partial", work / "parts"):
        folder.mkdir(parents=True)
    (work / "status").touch()
    (work / "parts/slurm.sources").write_text(machine_mirror().stanza(SUITE))
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": f"{work}/parts",
        "Dir::State::lists": f"{work}/lists",
        "Dir::Cache": f"{work}/cache",
        "Dir::State::status": f"{work}/status",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq", *(w for k, v in options.items() for w in ("-o", f"{k}={v}"))]
    log.info("apt: the package list of %s", SUITE)
    _run([*apt, "update"])
    log.info("apt: download %d packages", len(SLURM_PACKAGES + LIBRARY_PACKAGES))
    _run([*apt, "download", *SLURM_PACKAGES, *LIBRARY_PACKAGES], cwd=debs)


def _unpack(debs: Path, root: Path) -> None:
    log.info("unpack")
    root.mkdir()
    for deb in sorted(debs.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(deb), str(root)])


def _make_runnable(root: Path, prefix: Path) -> None:
    """Point every Slurm program at the private glibc and libraries, by their final paths."""
    log.info("patch the programs for %s", prefix)
    lib = library_dir(root)
    loader = next(lib.glob("ld-linux-*.so.*")).name
    final = prefix / lib.relative_to(root)
    rpath = ["--force-rpath", "--set-rpath", f"{final}/slurm-wlm:{final}"]
    programs = filter(_elf, [*(root / "usr/bin").glob("s*"), *(root / "usr/sbin").glob("slurm*")])
    lines = [["--set-interpreter", f"{final}/{loader}", *rpath, str(p)] for p in programs]
    lines += [[*rpath, str(plugin)] for plugin in (lib / "slurm-wlm").glob("*.so")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda line: _run(["patchelf", *line]), lines))
    for daemon in ("slurmctld", "slurmd", "slurmstepd"):
        link = root / "usr/sbin" / daemon
        link.unlink(missing_ok=True)
        link.symlink_to(f"{daemon}-wlm")


def library_dir(prefix: Path) -> Path:
    """The prefix's library folder, whatever the machine's architecture."""
    return next((prefix / "usr/lib").glob("*-linux-gnu"))


def _elf(path: Path) -> bool:
    if path.is_symlink():
        return False
    with path.open("rb") as handle:
        return handle.read(4) == b"\x7fELF"


def _run(
    line: Sequence[str], extra: Mapping[str, str] | None = None, cwd: Path | None = None
) -> None:
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}", **(extra or {})}
    done = subprocess.run(line, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise ClusterError(f"{' '.join(line)[:200]} ended with {done.returncode}:\n{tail}")
