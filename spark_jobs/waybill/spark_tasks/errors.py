"""Errors that were raised inside a Spark task, as what they were before Spark wrapped them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from waybill import errors

_RAISED = re.compile(
    r"^waybill\.errors\.(\w+): (?:(WB-\d{4}): )?(.*?)(?=\n\s*\n|\n\tat |\Z)",
    re.MULTILINE | re.DOTALL,
)


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise the `WaybillError` that failed a task, instead of Spark's account of it."""
    try:
        yield
    except errors.WaybillError:
        raise
    except Exception as error:
        found = _RAISED.search(str(error))
        kind = getattr(errors, found[1], None) if found else None
        if found and isinstance(kind, type) and issubclass(kind, errors.WaybillError):
            text, code = found[3].strip(), errors.Code.of(found[2])
            if code is errors.Code.VALUE_LOST:
                raise errors.value_lost(text) from error
            raise kind(text, code=code) from error
        raise
