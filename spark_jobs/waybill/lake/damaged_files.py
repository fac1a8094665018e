"""Data files of the lake that are not what was written into them."""

from __future__ import annotations

from waybill.errors import Code, WaybillError

_CHECKSUM = "could not verify page integrity"
"""How Arrow begins to say that a page is not what its checksum says."""


def shows_damage(error: Exception) -> bool:
    """Whether a file was read that is no such file; other faults are those of a file system."""
    # Whoever only asks for names of tables has no use for Arrow.
    import pyarrow as pa

    return isinstance(error, pa.ArrowInvalid) or _CHECKSUM in str(error)


def damaged_file(path: str, error: Exception) -> WaybillError:
    """What to raise for a data file that is damaged or gone."""
    message = (
        f"the data file {path} cannot be read ({error}): see whether something besides "
        "`waybill upkeep` removes or changes files of the lake, put it back from a copy, then run "
        "the batch again"
    )
    return WaybillError(message, code=Code.LAKE_FILE_LOST)
