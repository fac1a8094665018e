"""Data files of the lake that are not what was written into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from waybill.errors import Code, WaybillError

WRONG_CHECKSUM = "could not verify page integrity"
"""How Arrow and Java's Parquet begin to say that a page is not what its checksum says."""


@contextmanager
def undamaged(path: str) -> Iterator[None]:
    """Read a data file; what else goes wrong in a file system is not a fault of the file's.

    Raises:
        WaybillError: it is not what was written.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        if _shows_damage(error):
            raise damaged_file(path, error) from error
        raise


def _shows_damage(error: Exception) -> bool:
    # Whoever only asks for names of tables has no use for Arrow.
    import pyarrow as pa

    return isinstance(error, pa.ArrowInvalid) or WRONG_CHECKSUM in str(error)


def damaged_file(path: str, error: Exception) -> WaybillError:
    """What to raise for a data file that is damaged or gone."""
    message = (
        f"the data file {path} cannot be read ({error}): see whether something besides "
        "`waybill upkeep` removes or changes files of the lake, put it back from a copy, then run "
        "the batch again"
    )
    return WaybillError(message, code=Code.LAKE_FILE_LOST)
