"""The disks of this machine by fsspec's interface: links followed, nothing passed over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem


class LocalFiles(LocalFileSystem):  # type: ignore[misc]
    """Local files; a link counts as what it leads to, so listings go through linked folders.

    A link that leads nowhere, or back to a folder above it, stays what fsspec calls `other`.
    """

    def ls(self, path: str, detail: bool = False, **given: Any) -> list[Any]:
        """What is right in a folder."""
        found = super().ls(path, detail=True, **given)
        if any(entry["islink"] for entry in found):
            folder = Path(self._strip_protocol(path))
            above = {os.path.realpath(parent) for parent in (folder, *folder.parents)}
            found = [self._followed(entry, above) for entry in found]
        return found if detail else [entry["name"] for entry in found]

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, **given: Any
    ) -> Iterator[Any]:
        """The folders below a folder, as fsspec does it; one that may not be read is an error."""
        yield from super().walk(path, maxdepth, topdown, **{"on_error": _unless_gone, **given})

    def _followed(self, entry: dict[str, Any], above: set[str]) -> dict[str, Any]:
        """What an entry of a folder leads to, under its own name."""
        if not entry["islink"] or os.path.realpath(entry["name"]) in above:
            return entry
        try:
            target: dict[str, Any] = self.info(entry["name"])
        except OSError:
            return entry
        return target


def _unless_gone(error: OSError) -> None:
    """A folder may go away while it is listed, others hide files that would be missed."""
    if not isinstance(error, FileNotFoundError):
        raise error
