"""Archives of programs and of stored lakes, unpacked."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract all members of an archive that is open.

    A member that would leave the folder is refused from Python 3.11.4 on; those before do not know
    how. The archives are held against their digests before they come here.

    Args:
        archive: the archive.
        folder: where its members go.

    Raises:
        OSError: the archive cannot be read, or the folder cannot be written.
        tarfile.TarError: it is damaged, or a member would leave the folder.
    """
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(folder)
