"""Machine code of compiled functions, kept where every process of this machine finds it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import msgspec

from waybill.bulk.native.functions import MachineCode, called

if TYPE_CHECKING:
    from waybill.bulk.native.functions import Code, Kinds, Source

FOLDER = "NUMBA_CACHE_DIR"
"""Variable of the environment that names the folder in which code is kept."""


def machine_code(function: Source, kinds: Kinds) -> Code:
    """A function for arguments of some types, as it is kept, else compiled and kept.

    Args:
        function: what to compile.
        kinds: types of its arguments.
    """
    named = hashlib.sha256(function.digest + repr(kinds).encode() + _machine()).hexdigest()
    name = f"{function.function.__name__}.{named[:40]}.code"
    for folder in _folders(function):
        code = _read(folder / name)
        if code is not None:
            return _loaded(code, kinds)
    from waybill.bulk.native.compiler import compiled_code

    code = compiled_code(function, kinds, f"waybill_{named[:40]}")
    if _has(code.needed):
        for folder in _folders(function):
            if _kept(code, folder, name):
                break
    return _loaded(code, kinds)


def _folders(function: Source) -> list[Path]:
    """Where code may be kept, the best place first."""
    named = os.environ.get(FOLDER)
    if named:
        return [Path(named)]
    folders = [Path(function.function.__code__.co_filename).parent / "__pycache__"]
    # A user of a container may have no home.
    with suppress(RuntimeError):
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        folders.append(caches / "waybill")
    return folders


def _read(path: Path) -> MachineCode | None:
    """Code that is kept in a file; None where there is none, or it is damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, text = stored[:_DIGEST], stored[_DIGEST:]
    if hashlib.sha256(text).digest() != digest:
        return None
    code = _decode(text)
    return code if _has(code.needed) else None


def _kept(code: MachineCode, folder: Path, name: str) -> bool:
    """Keep code in a file of a folder, which others read only when it is whole."""
    text = msgspec.msgpack.encode(code)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, written = tempfile.mkstemp(prefix=name, dir=folder)
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(text).digest() + text)
        Path(written).replace(folder / name)
    except OSError:
        with suppress(OSError):
            Path(written).unlink()
        return False
    return True


@cache
def _machine() -> bytes:
    """What else decides which code is right: the processor, and the versions of the compilers."""
    features = llvm.get_host_cpu_features().flatten()
    triple = llvm.get_process_triple()
    versions = version("numba"), version("llvmlite"), object.__basicsize__
    return repr((llvm.get_host_cpu_name(), features, triple, versions)).encode()


def _has(names: list[str]) -> bool:
    """Whether this process has some functions of C."""
    return all(hasattr(_process(), name) for name in names)


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@cache
def _engine() -> Any:
    """What loads object code; it and what it has loaded stay as long as the process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _loaded(code: MachineCode, kinds: Kinds) -> Code:
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.objects))
    engine.finalize_object()
    address = engine.get_function_address(code.name)
    plain_kinds = [object if isinstance(kind, tuple) else kind for kind in kinds]
    return called(address, plain_kinds, code.returned)


_DIGEST = hashlib.sha256().digest_size
_decode = msgspec.msgpack.Decoder(MachineCode).decode
