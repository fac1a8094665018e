"""Compiles functions, once for all processes where there is a place to keep the result."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
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
    from numba.core.caching import FunctionCache
    from numba.core.runtime.nrt import rtsys


class _Kept(FunctionCache):
    """The machine code of one function, where it is kept.

    Before it looks for what is kept, numba loads everything that it could need to compile it, which
    takes longer than reading the code. Where nothing is kept, its compiler loads that itself.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for arguments of some types; None where it is not kept."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers and arrays as machine code, made when it is first called."""
    made: Any = njit(nogil=True)(function)
    # Without a place beside the code and in the home of the user, each process compiles anew.
    with suppress(RuntimeError):
        made._cache = _Kept(function)  # type: ignore[no-untyped-call]
    code: Callable[..., Any] = made
    return code
