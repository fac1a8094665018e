"""Fetch the jars of a lock file into a folder and check their SHA-256 sums.

    jars.py fetch [LOCK FOLDER]    fetch what is missing, check all, remove what is not listed
    jars.py lock [LOCK FOLDER]     fetch anew and write the sums found into the lock file

LOCK is `jars.lock` and FOLDER `jars` where nothing is said. The look-up is done by the Ivy that
PySpark ships, once for all jars, into a cache that lives only as long as this run; afterwards jobs
and servers name files and look nothing up.

The jars of a lock file are fetched as listed, without what they depend on, one a line:
`group:artifact:version[:classifier][@tar.gz] sha256:SUM`, with `@tar.gz` for a program that comes
packed and not as a jar. A line `from group:artifact:version` names what
the list was made from: `lock` then resolves these with all they need, and writes the list anew.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

PROJECT = Path(__file__).resolve().parent.parent
LOCK = PROJECT / "jars.lock"
FOLDER = PROJECT / "jars"
ENTRY = re.compile(
    r"(?P<origin>from\s+)?(?P<group>[\w.-]+):(?P<artifact>[\w.-]+):(?P<version>[\w.-]+)"
    r"(?::(?P<classifier>[\w.-]+))?(?:@(?P<ending>tar\.gz))?(?:\s+sha256:(?P<sum>[0-9a-f]{64}))?"
)
ONLY_LISTED = """<ivysettings>
  <property name="ivy.checksums" value=""/>
  <settings defaultResolver="public"/>
  <resolvers>
    <ibiblio name="public" m2compatible="true" usepoms="false" useMavenMetadata="false"/>
  </resolvers>
</ivysettings>
"""
"""Settings of Ivy to fetch the jars of a lock alone, which halves the time: what they depend on is
not wanted, and their sums are those of the lock."""


class JarError(Exception):
    """A jar is missing or wrong; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock file."""

    group: str
    artifact: str
    version: str
    sum: str | None
    classifier: str | None = None
    """Which of several jars of one version it is."""
    ending: str = "jar"
    """How the file's name ends."""

    @property
    def name(self) -> str:
        """The file's name inside the jar folder."""
        marked = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{marked}.{self.ending}"

    def line(self) -> str:
        """The line as it stands in the lock file."""
        marked = f":{self.classifier}" if self.classifier else ""
        marked += f"@{self.ending}" if self.ending != "jar" else ""
        return f"{self.group}:{self.artifact}:{self.version}{marked} sha256:{self.sum}"


def read_lock(text: str, lock: str = LOCK.name) -> list[Jar]:
    """The jars that a lock file names; blank lines and `#` comments do not count."""
    return _entries(text, lock)[1]


def _entries(text: str, lock: str) -> tuple[list[Jar], list[Jar]]:
    """What the list was made from, and the list."""
    origins: list[Jar] = []
    jars: list[Jar] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = ENTRY.fullmatch(line.strip())
        if match is None:
            form = "group:artifact:version[:classifier][@tar.gz] sha256:SUM"
            message = f"{lock} line {number} does not have the form '{form}': {line.strip()!r}."
            raise JarError(message)
        named = (match["group"], match["artifact"], match["version"])
        found = Jar(*named, match["sum"], match["classifier"], match["ending"] or "jar")
        (origins if match["origin"] else jars).append(found)
    return origins, jars


def sha256(path: Path) -> str:
    """The SHA-256 sum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(jar: Jar, folder: Path, lock: str = LOCK.name) -> None:
    """Compare a fetched jar with the lock; a jar that differs is deleted.

    Raises:
        JarError: the lock holds no sum for it, or another one.
    """
    path = folder / jar.name
    if jar.sum is None:
        message = f"{lock} has no sum for {jar.name}; run 'make lock'."
        raise JarError(message)
    if sha256(path) != jar.sum:
        path.unlink()
        message = f"{jar.name} was deleted, its sum is not that of {lock}; run make again."
        raise JarError(message)


def download(
    jars: Sequence[Jar], folder: Path, transitive: bool = False, settings: str | None = None
) -> list[Jar]:
    """Put jars into the folder, all of them complete or none.

    Args:
        jars: what to fetch.
        folder: where to.
        transitive: whether to fetch what they need to run as well.
        settings: those of Ivy in XML, if not its own.

    Returns:
        What was put there, sorted.
    """
    scratch = Path(tempfile.mkdtemp(prefix=".ivy-", dir=folder))
    try:
        (scratch / "ivy.xml").write_text(_ivy_module(jars, transitive), encoding="utf-8")
        out = scratch / "out"
        pattern = out / "[organisation]/[module]/[revision]/[ext]/[module](-[classifier])"
        file = scratch / "settings.xml"
        if settings is not None:
            file.write_text(settings, encoding="utf-8")
        command = [
            java(),
            # It ends within seconds, and so takes two thirds of the processor time.
            *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            f"-Divy.default.ivy.user.dir={scratch / 'home'}",
            "-jar",
            str(ivy()),
            *(() if settings is None else ("-settings", str(file))),
            *("-cache", str(scratch / "cache")),
            *("-ivy", str(scratch / "ivy.xml")),
            *("-confs", "default", "-types", "jar", "bundle"),
            *("-retrieve", str(pattern)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        places = sorted(path.relative_to(out) for path in out.glob("*/*/*/*/*"))
        found = [_found(place) for place in places]
        missing = [jar.name for jar in jars if replace(jar, sum=None) not in found]
        if done.returncode != 0 or missing:
            sys.stderr.write(done.stdout + done.stderr)
            named = missing[0] if missing else jars[0].name
            message = f"{named} could not be fetched, for the reason above; run make again."
            raise JarError(message)
        for jar, place in zip(found, places, strict=True):
            (out / place).replace(folder / jar.name)
        return found
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _found(place: Path) -> Jar:
    """The jar that Ivy put at a place of its pattern."""
    group, artifact, version, ending, file = place.parts
    classifier = file.removeprefix(artifact).removeprefix("-")
    return Jar(group, artifact, version, None, classifier or None, ending)


def _ivy_module(jars: Sequence[Jar], transitive: bool) -> str:
    """A module for Ivy that depends on the jars."""
    modules: dict[tuple[str, str, str], list[Jar]] = {}
    for jar in jars:
        modules.setdefault((jar.group, jar.artifact, jar.version), []).append(jar)
    dependencies = "".join(
        f"<dependency org={quoteattr(group)} name={quoteattr(artifact)} "
        f'rev={quoteattr(version)} conf="default" transitive="{str(transitive).lower()}">'
        f"{_artifacts(found)}</dependency>"
        for (group, artifact, version), found in modules.items()
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="waybill" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _artifacts(jars: list[Jar]) -> str:
    """What Ivy has to be told to take others of a module's jars than the usual one."""
    if all(jar.classifier is None and jar.ending == "jar" for jar in jars):
        return ""
    marks = [f" m:classifier={quoteattr(j.classifier)}" if j.classifier else "" for j in jars]
    named = f'<artifact name={quoteattr(jars[0].artifact)} type="jar"'
    endings = [quoteattr(jar.ending) for jar in jars]
    return "".join(f"{named} ext={e}{m}/>" for e, m in zip(endings, marks, strict=True))


def java() -> str:
    """The Java to use: that of JAVA_HOME, else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def ivy() -> Path:
    """The Ivy jar inside the installed PySpark, found without importing PySpark."""
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        message = "PySpark is not installed completely in .venv; run 'make clean setup'."
        raise JarError(message)
    return found[-1]


def fetch(lock: Path = LOCK, folder: Path = FOLDER) -> None:
    """Make the folder hold exactly the jars of the lock, each with the sum it should have."""
    jars = read_lock(lock.read_text(encoding="utf-8"), lock.name)
    folder.mkdir(parents=True, exist_ok=True)
    there = {path.name for path in (*folder.glob("*.jar"), *folder.glob("*.tar.gz"))}
    for stale in there - {jar.name for jar in jars}:
        (folder / stale).unlink()
    missing = [jar for jar in jars if not (folder / jar.name).is_file()]
    if missing:
        sys.stdout.write(f"waybill: fetching {len(missing)} jars of {lock.name}\n")
        sys.stdout.flush()
        download(missing, folder, settings=ONLY_LISTED)
    for jar in jars:
        check(jar, folder, lock.name)


def relock(lock: Path = LOCK, folder: Path = FOLDER) -> None:
    """Fetch every jar anew and write its sum behind its name."""
    text = lock.read_text(encoding="utf-8")
    origins, listed = _entries(text, lock.name)
    folder.mkdir(parents=True, exist_ok=True)
    found = download(origins or listed, folder, transitive=bool(origins))
    locked = [replace(jar, sum=sha256(folder / jar.name)).line() for jar in found]
    comments = [line for line in text.splitlines() if line.startswith(("#", "from "))]
    lock.write_text("\n".join([*comments, *locked]) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run one of the two commands and return the exit status."""
    commands = {"fetch": fetch, "lock": relock}
    if len(arguments) not in (1, 3) or arguments[0] not in commands:
        sys.stderr.write("usage: jars.py fetch|lock [LOCK FOLDER]\n")
        return 2
    try:
        commands[arguments[0]](*(Path(given).absolute() for given in arguments[1:]))
    except JarError as error:
        sys.stderr.write(f"waybill: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
