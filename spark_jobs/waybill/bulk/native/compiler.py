"""Makes machine code of functions; loading it takes longer than all that is kept."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numpy as np

from waybill.bulk.native.functions import (
    ALIGNED,
    CONTIGUOUS,
    WRITEABLE,
    Instruction,
    MachineCode,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.bulk.native.functions import Kinds


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Let a module that is not loaded yet seem not to be installed."""
    if name in sys.modules:
        yield
        return
    hidden: Any = None
    sys.modules[name] = hidden
    try:
        yield
    finally:
        del sys.modules[name]


with _without("scipy"):
    # It looks for the linear algebra of scipy, which takes a fifth of a second to load.
    from numba import njit, types
    from numba.np.numpy_support import from_dtype

from waybill.bulk.native import instructions  # noqa: E402

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    # What is kept has neither the objects of Python nor numba's own memory.
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    # A division by zero makes no error, as none makes one elsewhere in compiled code.
    "error_model": "numpy",
}


def compiled_code(function: Source, kinds: Kinds, name: str) -> MachineCode:
    """The machine code of a function.

    Args:
        function: what to compile.
        kinds: types of its arguments, as `Source` has them.
        name: no other code of this process has.

    Raises:
        TypeError: it returns something else than nothing or a number.
        numba.core.errors.NumbaError: it cannot be compiled.
    """
    kind_names = [_kind(kind) for kind in kinds]
    words = [types.int64, *(types.float64 if kind is float else types.int64 for kind in kinds)]
    called, fits = _dispatcher(function), instructions.fits(kinds)
    arguments_of = instructions.arguments_of(kind_names)

    def entry(*given: Any) -> Any:
        if not fits(given):
            raise TypeError
        return called(*arguments_of(given))

    entry.__qualname__ = name
    made: Any = njit(**_OPTIONS)(entry)
    made.compile((types.StarArgTuple(words),))
    (result,) = made.overloads.values()
    returned = _returned(result.signature.return_type)
    if returned is None:
        text = f"{function.function.__name__} returns {result.signature.return_type}"
        raise TypeError(f"{text}; compiled functions return nothing or a number")
    objects = result.library.serialize_using_object_code()[2][0]
    return MachineCode(result.fndesc.llvm_func_name, returned, _undefined(result.library), objects)


@cache
def _dispatcher(function: Source) -> Any:
    """A function as the compiler wants it, with those that it calls."""
    known = dict(function.function.__globals__)
    for name, value in function.names.items():
        if isinstance(value, Source):
            known[name] = _dispatcher(value)
        elif isinstance(value, Instruction):
            known[name] = getattr(instructions, value.name)
    plain = function.function
    return njit(**_OPTIONS)(FunctionType(plain.__code__, known, plain.__name__, plain.__defaults__))


def _kind(kind: Any) -> Any:
    """The type of an argument, as the compiler names it."""
    if not isinstance(kind, tuple):
        return types.float64 if kind is float else types.int64
    element, dimensions, flags = kind
    return types.Array(
        from_dtype(np.dtype(element)),
        dimensions,
        "C" if flags & CONTIGUOUS else "A",
        readonly=not flags & WRITEABLE,
        aligned=bool(flags & ALIGNED),
    )


def _returned(kind: Any) -> str | None:
    if kind is types.none:
        return "none"
    if kind is types.boolean:
        return "bool"
    return {types.int64: "int64", types.float64: "float64"}.get(kind)


def _undefined(library: Any) -> list[str]:
    """Functions that the code calls and does not hold."""
    module = llvm.parse_assembly(library.get_llvm_str())
    calls = {one.name for one in module.functions if one.is_declaration}
    return sorted(name for name in calls if not name.startswith("llvm."))
