"""Compiles functions, once for all processes where there is a place to keep the result."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
    import numba.np.arraymath  # noqa: F401
    from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers and arrays as machine code, made when it is first called."""
    try:
        made: Callable[..., Any] = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        # Neither beside the code nor in the home of the user can anything be kept.
        made = njit(nogil=True)(function)
    return made
