"""Where this machine gets its Debian packages from, read from its own apt configuration."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError

APT_DIR = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")
ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)")
KEPT_OPTIONS = {"signed-by": "Signed-By", "trusted": "Trusted"}


@dataclass(frozen=True, slots=True)
class Mirror:
    """One package source: its URI, and the options that say why it is trusted."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()

    def stanza(self, suite: str) -> str:
        """The same source for another suite, in apt's `.sources` format."""
        fields = [("Types", "deb"), ("URIs", self.uri), ("Suites", suite), ("Components", "main")]
        return "".join(f"{name}: {value}\n" for name, value in (*fields, *self.options))


def machine_mirror(apt_dir: Path = APT_DIR, os_release: Path = OS_RELEASE) -> Mirror:
    """The source that serves this machine's own release."""
    codename = _codename(os_release)
    for suites, mirror in _sources(apt_dir):
        if codename in suites:
            return mirror
    raise ClusterError(
        f"no apt source for {codename!r} in {apt_dir}/sources.list or {apt_dir}/sources.list.d: "
        "the test cluster takes Slurm from the machine's own Debian mirror; add one there"
    )


def _codename(os_release: Path) -> str:
    found = re.search(r"^VERSION_CODENAME=\"?(\w+)", os_release.read_text(), re.MULTILINE)
    if found is None:
        raise ClusterError(f"{os_release} names no VERSION_CODENAME: Debian 12 is needed")
    return found.group(1)


def _sources(apt_dir: Path) -> Iterator[tuple[list[str], Mirror]]:
    parts = apt_dir / "sources.list.d"
    for path in sorted(parts.glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            yield from _from_stanza(stanza)
    for path in [apt_dir / "sources.list", *sorted(parts.glob("*.list"))]:
        for line in path.read_text().splitlines() if path.is_file() else []:
            yield from _from_line(line)


def _from_stanza(stanza: str) -> Iterator[tuple[list[str], Mirror]]:
    lines = [line for line in stanza.splitlines() if not line.startswith("#")]
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            fields[name.strip().lower()] = value.strip()
    if "deb" not in fields.get("types", "").split() or fields.get("enabled") == "no":
        return
    options = tuple((KEPT_OPTIONS[k], fields[k]) for k in KEPT_OPTIONS if fields.get(k))
    for uri in fields.get("uris", "").split():
        yield fields.get("suites", "").split(), Mirror(uri, options)


def _from_line(line: str) -> Iterator[tuple[list[str], Mirror]]:
    found = ONE_LINE.match(line.strip())
    if found is None:
        return
    pairs = [p.partition("=")[::2] for p in (found["options"] or "").split()]
    options = tuple((KEPT_OPTIONS[k.lower()], v) for k, v in pairs if k.lower() in KEPT_OPTIONS)
    yield [found["suite"]], Mirror(found["uri"], options)
