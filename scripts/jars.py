"""Fetch the jars of `jars.lock` into `jars/` and check their SHA-256 sums.

    jars.py fetch    fetch what is missing, check everything, remove what the list does not name
    jars.py lock     fetch anew and write the sums found into `jars.lock`

The look-up is done by the Ivy that PySpark ships, into a cache that lives only as long as this run;
afterwards Spark jobs name files with `spark.jars` and look nothing up. Each jar stands alone:
Iceberg's runtime is shaded, and what the SQLite driver needs (slf4j) is part of Spark.
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
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
LOCK = PROJECT / "jars.lock"
FOLDER = PROJECT / "jars"
ENTRY = re.compile(
    r"(?P<group>[\w.-]+):(?P<artifact>[\w.-]+):(?P<version>[\w.-]+)(?:\s+sha256:(?P<sum>[0-9a-f]{64}))?"
)


class JarError(Exception):
    """A jar is missing or wrong; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock file."""

    group: str
    artifact: str
    version: str
    sum: str | None

    @property
    def name(self) -> str:
        """The file's name inside the jar folder."""
        return f"{self.artifact}-{self.version}.jar"

    def line(self) -> str:
        """The line as it stands in the lock file."""
        return f"{self.group}:{self.artifact}:{self.version} sha256:{self.sum}"


def read_lock(text: str) -> list[Jar]:
    """The jars that a lock file names; blank lines and `#` comments do not count."""
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = ENTRY.fullmatch(line.strip())
        if match is None:
            form = "group:artifact:version sha256:SUM"
            message = f"jars.lock line {number} does not have the form '{form}': {line.strip()!r}."
            raise JarError(message)
        jars.append(Jar(**match.groupdict()))
    return jars


def sha256(path: Path) -> str:
    """The SHA-256 sum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(jar: Jar, folder: Path) -> None:
    """Compare a fetched jar with the lock; a jar that differs is deleted.

    Raises:
        JarError: the lock holds no sum for it, or another one.
    """
    path = folder / jar.name
    if jar.sum is None:
        message = f"jars.lock has no sum for {jar.name}; run 'make lock'."
        raise JarError(message)
    if sha256(path) != jar.sum:
        path.unlink()
        message = f"{jar.name} was deleted, its sum is not that of jars.lock; run make again."
        raise JarError(message)


def download(jar: Jar, folder: Path) -> None:
    """Put one jar into the folder, complete or not at all."""
    scratch = Path(tempfile.mkdtemp(prefix=".ivy-", dir=folder))
    try:
        command = [
            java(),
            f"-Divy.default.ivy.user.dir={scratch / 'home'}",
            "-jar",
            str(ivy()),
            *("-cache", str(scratch / "cache")),
            *("-dependency", jar.group, jar.artifact, jar.version),
            *("-confs", "default", "-types", "jar", "-notransitive"),
            *("-retrieve", str(scratch / "out" / "[artifact]-[revision].[ext]")),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        fetched = scratch / "out" / jar.name
        if done.returncode != 0 or not fetched.is_file():
            sys.stderr.write(done.stdout + done.stderr)
            message = f"{jar.name} could not be fetched, for the reason above; run make again."
            raise JarError(message)
        fetched.replace(folder / jar.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


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
    jars = read_lock(lock.read_text(encoding="utf-8"))
    folder.mkdir(exist_ok=True)
    for stale in {path.name for path in folder.glob("*.jar")} - {jar.name for jar in jars}:
        (folder / stale).unlink()
    for jar in jars:
        if not (folder / jar.name).is_file():
            sys.stdout.write(f"waybill: fetching {jar.name}\n")
            sys.stdout.flush()
            download(jar, folder)
        check(jar, folder)


def relock(lock: Path = LOCK, folder: Path = FOLDER) -> None:
    """Fetch every jar anew and write its sum behind its name."""
    lines = []
    folder.mkdir(exist_ok=True)
    for line in lock.read_text(encoding="utf-8").splitlines():
        for jar in read_lock(line):
            download(jar, folder)
            locked = Jar(jar.group, jar.artifact, jar.version, sha256(folder / jar.name))
            lines.append(locked.line())
            break
        else:
            lines.append(line)
    lock.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run one of the two commands and return the exit status."""
    commands = {"fetch": fetch, "lock": relock}
    if len(arguments) != 1 or arguments[0] not in commands:
        sys.stderr.write("usage: jars.py fetch|lock\n")
        return 2
    try:
        commands[arguments[0]]()
    except JarError as error:
        sys.stderr.write(f"waybill: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
