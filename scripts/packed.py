"""Pack Python and the packages of Spark's executors into an archive that runs where it is unpacked.

    packed.py ARCHIVE

ARCHIVE ends in `.tar.gz`, or in `.tar` to leave it as large as it is for who unpacks it by hand:
Spark forgets which files of a `.tar` are programs. It holds the interpreter of this environment,
the packages of `requirements-executors.txt`, and the libraries of this machine that both use: a
worker needs no Python, only the same kind of processor and a Linux whose C library is not older
than here. `bin/python` in it is what `spark.pyspark.python` names.

What uv has in its cache is not downloaded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

PROJECT = Path(__file__).resolve().parent.parent
LOCK = PROJECT / "requirements-executors.txt"

INTERPRETER = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
"""The Python that this environment was made from."""

LEFT_OUT = shutil.ignore_patterns(
    *("site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo", "ensurepip"),
    *("tkinter", "_tkinter*", "config-*", "*.opt-?.pyc", "EXTERNALLY-MANAGED"),
)
"""What no task uses of the standard library."""

LEVEL = 1
"""Of the compression: a tenth larger than by the usual level, in a third of its time."""

GLIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|anl|mvec|nss_\w+))\.so\.\d+")
"""Libraries that are the C library itself, which belongs to the kernel's machine."""

LAUNCHER = """\
#!/bin/sh
# Python with the libraries beside it, wherever this folder lies.
here=$(CDPATH= cd -- "${{0%/*}}/.." && pwd -P) || exit
LD_LIBRARY_PATH=$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
export LD_LIBRARY_PATH
unset PYTHONHOME
exec "$here/bin/{name}" "$@"
"""

PROBE = """\
import importlib, importlib.metadata, pathlib, sys
for name in sorted(importlib.metadata.packages_distributions()):
    if name.isidentifier():
        importlib.import_module(name)
maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
used = {line.split(maxsplit=5)[5] for line in maps if ".so" in line}
print(*sorted(used | {module.__file__ for module in list(sys.modules.values())
                      if getattr(module, "__file__", None)}), sep="\\n")
"""
"""Imports every package and tells the files that came of it."""


class PackError(Exception):
    """The archive cannot be made here; one sentence that says what to do."""


def build(folder: Path, lock: Path = LOCK) -> None:
    """Make the environment in a new folder, which may be moved afterwards.

    Raises:
        PackError: this machine's Python cannot be packed, or a package cannot be installed.
    """
    if sys.platform != "linux":
        message = "executors run on Linux: pack them there, for instance in a container"
        raise PackError(message)
    _copy_interpreter(folder)
    python = folder / "bin" / "python"
    where = _run([python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    _install(lock, Path(where.strip()))
    _bring_libraries(folder)
    check(folder)


def check(folder: Path) -> None:
    """Import everything in an environment.

    Raises:
        PackError: a package cannot be imported, or something is taken from elsewhere.
    """
    inside = folder.resolve()
    for used in _run([folder / "bin" / "python", "-I", "-c", PROBE]).splitlines():
        if not GLIBC.fullmatch(Path(used).name) and inside not in Path(used).resolve().parents:
            message = (
                f"{INTERPRETER} takes {used} even where it is moved: make the environment "
                "from another Python ('make clean', then 'make PYTHON=/path/to/python3 packed')"
            )
            raise PackError(message)


def pack(folder: Path, archive: Path) -> None:
    """Write a folder's content into an archive, which is there as a whole or not at all."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file, _tar(file, archive.suffix) as tar:
            for path in sorted(folder.iterdir()):
                tar.add(path, path.name, filter=_of_nobody)
        partial.replace(archive)
    finally:
        partial.unlink(missing_ok=True)


def _tar(file: BinaryIO, suffix: str) -> tarfile.TarFile:
    if suffix == ".tar":
        return tarfile.open(fileobj=file, mode="w")
    return tarfile.open(fileobj=file, mode="w:gz", compresslevel=LEVEL)


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _copy_interpreter(folder: Path) -> None:
    """The executable and its standard library, and a launcher that finds what lies beside them."""
    library = Path(sysconfig.get_path("stdlib"))
    (folder / "bin").mkdir(parents=True)
    shutil.copy2(INTERPRETER, folder / "bin" / INTERPRETER.name)
    shutil.copytree(library, folder / library.relative_to(sys.base_prefix), ignore=LEFT_OUT)
    launcher = folder / "bin" / "python"
    launcher.write_text(LAUNCHER.format(name=INTERPRETER.name), encoding="utf-8")
    launcher.chmod(0o755)
    (folder / "lib").mkdir(exist_ok=True)


def _install(lock: Path, target: Path) -> None:
    uv = Path(sys.executable).parent / "uv"
    words = ["--quiet", "--python", sys.executable, "--target", str(target), "--require-hashes"]
    _run([uv, "pip", "sync", *words, "--compile-bytecode", str(lock)], dict(os.environ))


def _bring_libraries(folder: Path) -> None:
    """Copy the libraries that binaries here use and that no package brings."""
    binaries = [path for path in (folder / "bin").iterdir() if path.name != "python"]
    binaries += [path for path in folder.rglob("*.so*") if path.is_file()]
    # It ends with 1 where one of them uses no library at all.
    for line in _run(["ldd", *binaries], good=(0, 1)).splitlines():
        name, arrow, place = line.strip().partition(" => ")
        path = Path(place.rpartition(" (")[0])
        if arrow and path.is_file() and not GLIBC.fullmatch(name) and folder not in path.parents:
            target = folder / "lib" / name
            if not target.exists():
                shutil.copy2(path, target)
                target.chmod(0o755)


def _run(
    command: Sequence[str | Path],
    environment: dict[str, str] | None = None,
    good: Sequence[int] = (0,),
) -> str:
    """What a command prints; without variables where none are given, as on a bare machine."""
    try:
        done = subprocess.run(
            command, env=environment or {}, capture_output=True, text=True, check=False
        )
    except OSError as error:
        message = f"{command[0]} cannot be run ({error}): install it"
        raise PackError(message) from error
    if done.returncode not in good:
        reason = done.stderr.strip().splitlines()
        message = f"{command[0]} ended with {done.returncode}: {reason[-1] if reason else 'silent'}"
        raise PackError(message)
    return done.stdout


def main(arguments: Sequence[str]) -> int:
    """Build, pack, say how large it is."""
    if len(arguments) != 1 or not arguments[0].endswith((".tar.gz", ".tar")):
        sys.stderr.write(__doc__ or "")
        return 2
    archive = Path(arguments[0]).absolute()
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".packed-", dir=archive.parent) as room:
            folder = Path(room) / "environment"
            build(folder)
            pack(folder, archive)
    except PackError as error:
        sys.stderr.write(f"waybill: {error}\n")
        return 1
    sys.stdout.write(f"{archive}: {archive.stat().st_size / 2**20:.0f} MiB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
