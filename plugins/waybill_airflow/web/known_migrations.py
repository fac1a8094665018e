"""The migrations as the web server sees them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from waybill.spec.file import load_migration
from waybill_airflow.migration_files import FoundMigrations, file_of, read_migrations
from waybill_airflow.places import migrations_folder

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

_Stamp = tuple[int, int]
_read: dict[Path, tuple[_Stamp, Migration | Exception]] = {}
"""What files were when they were read last. Reading a file takes far longer than to ask whether it
has changed, and a page may be about hundreds."""


def known_migrations() -> FoundMigrations:
    """The usable migrations with their files, and a sentence for every other file."""
    return read_migrations(migrations_folder(), _loaded)


def known_migration(name: str) -> Migration | None:
    """The migration of a DAG, None where there is none.

    Raises:
        ConfigurationError: its file cannot be used, e.g. because a variable is not set here.
    """
    folder = migrations_folder()
    spec = next((spec for _, spec in known_migrations().migrations if spec.name == name), None)
    file = file_of(name, folder) if spec is None else None
    return spec if file is None else load_migration(file)


def _loaded(file: Path) -> Migration:
    stat = file.stat()
    stamp = (stat.st_mtime_ns, stat.st_size)
    known = _read.get(file)
    if known is None or known[0] != stamp:
        try:
            known = (stamp, load_migration(file))
        except Exception as error:  # noqa: BLE001 - raised again for whoever asks
            known = (stamp, error)
        _read[file] = known
    if isinstance(known[1], Exception):
        raise known[1]
    return known[1]
