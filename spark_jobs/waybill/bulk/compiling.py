"""Compiles functions, once for all processes where there is a place to keep the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers and arrays as machine code, made when it is first called."""
    try:
        made: Callable[..., Any] = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # Neither beside the code nor in the home of the user can anything be kept.
        made = njit(nogil=True)(function)
    return made
