"""Functions to compile, and their machine code as functions of Python."""

from __future__ import annotations

import ctypes
import hashlib
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Kinds = tuple[Any, ...]
"""For each argument `int`, `float`, or of an array the element, number of dimensions and flags."""

Code = Any
"""Machine code, to be called with its arguments: arrays as the objects that they are."""


class Instruction(NamedTuple):
    """What compiled functions use by this name and only a compiler knows."""

    name: str


class Source:
    """A function of numbers and arrays, to be compiled.

    Args:
        function: takes numbers and arrays of NumPy; returns nothing or one number.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @cached_property
    def digest(self) -> bytes:
        """Of everything that decides what the function does, other functions included."""
        code = self.function.__code__
        made = hashlib.sha256(code.co_code)
        for part in (code.co_consts, code.co_names, code.co_varnames, self.function.__defaults__):
            made.update(repr(part).encode())
        for name, value in self.names.items():
            made.update(name.encode())
            if isinstance(value, Source):
                made.update(value.digest)
            elif isinstance(value, np.ndarray):
                made.update(repr((value.dtype, value.shape)).encode() + value.tobytes())
            elif not hasattr(value, "__spec__"):
                made.update(repr(value).encode())
        return made.digest()

    @cached_property
    def names(self) -> dict[str, Any]:
        """What the function uses of its module."""
        given = self.function.__globals__
        return {name: given[name] for name in self.function.__code__.co_names if name in given}


class MachineCode(NamedTuple):
    """One function for arguments of some types.

    Attributes:
        name: of the function in the object code.
        returned: what it returns, as `called` wants it.
        needed: functions that the process has to have.
        objects: object code.
    """

    name: str
    returned: str
    needed: list[str]
    objects: bytes


class Unfit(Exception):
    """Machine code was called with arguments of other types."""


def called(address: int, kinds: Sequence[type], returned: str) -> Code:
    """Machine code as a function of Python.

    As numba has it, code takes where to write what it returns and where to write an error, and
    returns zero where there is none. It has one error: arguments of other types. To know arrays, it
    gets the address of their class.

    Args:
        address: where the code begins.
        kinds: for each argument `int`, `float` or `object`, which is an array.
        returned: `none`, or the type of what it returns: `int64`, `float64` or `bool`.
    """
    words = [ctypes.c_int64] * 3 + [_ARGUMENTS[kind] for kind in kinds]
    code = ctypes.CFUNCTYPE(ctypes.c_int32, *words)(address)
    if returned == "none":
        with_places = partial(code, _SPARE, _SPARE, id(np.ndarray))

        def nothing(*arguments: Any) -> None:
            if with_places(*arguments):
                raise Unfit

        return nothing
    kind = _RETURNED[returned]

    def number(*arguments: Any) -> Any:
        made = kind()
        if code(ctypes.addressof(made), _SPARE, id(np.ndarray), *arguments):
            raise Unfit
        return made.value

    return number


CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
LAYOUT = CONTIGUOUS | ALIGNED | WRITEABLE
"""Flags of an array: its rows follow each other, its elements stand where C has them, and it may be
written to, which no function is compiled to do with others."""

_ARGUMENTS: dict[type, Any] = {
    int: ctypes.c_int64,
    float: ctypes.c_double,
    object: ctypes.py_object,
}
_RETURNED: dict[str, Any] = {
    "int64": ctypes.c_int64,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
}
_NOTHING = ctypes.c_int64()
_SPARE = ctypes.addressof(_NOTHING)
"""Where code writes what nobody reads."""
