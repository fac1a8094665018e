"""Functions of numbers and arrays as machine code, made when they are first called."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from waybill.bulk.native.functions import LAYOUT, Source, Unfit

if TYPE_CHECKING:
    from collections.abc import Callable

    from waybill.bulk.native.functions import Code, Kinds


class Compiled(Source):
    """A function as machine code, made when it is first called with arguments of some types.

    Args:
        function: takes numbers and arrays of NumPy; returns nothing or one number, and makes no
            arrays.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._codes: dict[Kinds, Code] = {}
        self._last: Code = _unfit

    def __call__(self, *arguments: Any) -> Any:
        """Call it, with the lock of Python released.

        Raises:
            TypeError: an argument is neither a number nor an array.
        """
        try:
            return self._last(*arguments)
        except (Unfit, ctypes.ArgumentError):
            pass
        given = [
            argument.item() if isinstance(argument, np.generic) else argument
            for argument in arguments
        ]
        kinds = tuple([_kind(argument) for argument in given])
        code = self._codes.get(kinds)
        if code is None:
            code = self._codes[kinds] = self._made(kinds)
        self._last = code
        return code(*given)

    def _made(self, kinds: Kinds) -> Code:
        from waybill.bulk.native.kept import machine_code

        # What loads code does so for one thread at a time.
        with _loading:
            return machine_code(self, kinds)


def compiled(function: Callable[..., Any]) -> Compiled:
    """A function of numbers and arrays as machine code, made when it is first called."""
    return Compiled(function)


_loading = threading.Lock()


def _unfit(*_: Any) -> None:
    raise Unfit


def _kind(argument: Any) -> Any:
    if type(argument) is np.ndarray and argument.dtype.isnative:
        element = argument.dtype
        return element.byteorder + element.char, argument.ndim, argument.flags.num & LAYOUT
    if isinstance(argument, int):
        return int
    if isinstance(argument, float):
        return float
    raise TypeError(f"compiled functions take numbers and arrays, not {type(argument).__name__}")
