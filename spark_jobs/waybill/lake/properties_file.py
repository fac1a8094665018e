"""Settings of Spark in a file that only its owner can read.

Settings may hold secrets, and every user of a machine can read the command lines of its processes.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_OPTION = "--properties-file"


def write_properties(
    folder: Path, properties: Mapping[str, str], before: Path | None = None
) -> Path:
    """Settings as a file that Spark reads and nobody but its owner can.

    Args:
        folder: where to write it.
        properties: the settings.
        before: a file of properties that count where `properties` says nothing; without one it is
            `spark-defaults.conf`, which Spark does not read beside a file that it is given.
    """
    target = folder / "spark.properties"
    before = before or _defaults_file()
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        if before is not None and before.is_file():
            file.write(f"{before.read_text(encoding='utf-8')}\n")
        for key, value in sorted(properties.items()):
            file.write(f"{_escaped(key)}={_escaped(value)}\n")
    return target


@contextmanager
def submit_arguments(settings: Mapping[str, str]) -> Iterator[None]:
    """Have the Java that PySpark starts inside of the block take its settings from a file.

    The file is gone afterwards: Java has read it by the time that it answers. Arguments that the
    environment gives (`PYSPARK_SUBMIT_ARGS`) still go before the settings; a file of properties
    that they name comes after them, as it does when settings are arguments themselves.
    """
    given = os.environ.get(_ARGUMENTS)
    rest, theirs = _without_file(shlex.split(given or "pyspark-shell"))
    with tempfile.TemporaryDirectory(prefix="waybill-") as folder:
        file = write_properties(Path(folder), settings, theirs)
        os.environ[_ARGUMENTS] = shlex.join([_OPTION, str(file), *rest])
        try:
            yield
        finally:
            if given is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = given


def _without_file(arguments: list[str]) -> tuple[list[str], Path | None]:
    """Arguments of spark-submit without the file of properties, and that file."""
    rest, file = [], None
    words = iter(arguments)
    for word in words:
        if word == _OPTION:
            file = Path(next(words, ""))
        elif word.startswith(f"{_OPTION}="):
            file = Path(word.partition("=")[2])
        else:
            rest.append(word)
    return rest, file


def _defaults_file() -> Path | None:
    """Where spark-submit looks for the settings of every submission."""
    conf, home = os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME")
    if not home:
        spec = importlib.util.find_spec("pyspark")
        home = str(Path(spec.origin).parent) if spec is not None and spec.origin else None
    folder = Path(conf) if conf else Path(home, "conf") if home else None
    return None if folder is None else folder / "spark-defaults.conf"


def _escaped(text: str) -> str:
    """Text as Java's Properties reads it back unchanged."""
    plain = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    special = {**plain, **{sign: f"\\{sign}" for sign in " :=#!"}}
    return "".join(special.get(sign, sign) for sign in text)
