"""Make `jars/spark.jsa`, from which Java takes Spark's classes already parsed and checked.

    class_archive.py FILE

Every stage is a Java process of its own, and reading classes is most of its first seconds. Java
writes the archive itself at the end of a run over the sample shop. It belongs to one Java and one
set of jars: another Java does without it, and so does Waybill if the file is empty, which is what
is left where Java cannot write one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PATIENCE = 600.0
"""Seconds that the run may take."""


def make(target: Path) -> bool:
    """Write the archive; whether Java could. Without one the file is empty."""
    with tempfile.TemporaryDirectory(prefix="waybill-classes-") as folder:
        made = Path(folder) / "spark.jsa"
        target.unlink(missing_ok=True)  # or this very run would take its classes from it
        content = made.read_bytes() if _run(Path(folder), made) and made.exists() else b""
    beside = target.with_name(f".{target.name}")
    beside.write_bytes(content)
    beside.replace(target)
    return bool(content)


def _run(folder: Path, made: Path) -> bool:
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={made}"
    environment = {**os.environ, "WAYBILL_DEMO": str(folder), "SPARK_SUBMIT_OPTS": options}
    command = [sys.executable, "-m", "waybill.cli", "run", "migrations/shop.yaml"]
    try:
        # Java ends after Python does: the output that they share is read to its end.
        ended = subprocess.run(
            command,
            cwd=PROJECT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


if __name__ == "__main__":
    if not make(Path(sys.argv[1])):
        sys.stderr.write("waybill: this Java writes no class archive: stages start more slowly\n")
