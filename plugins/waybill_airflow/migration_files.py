"""The migration files of a folder, read so that one that is broken does not hide the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from waybill.errors import ConfigurationError
from waybill.spec.migrations_folder import VARIABLE

if TYPE_CHECKING:
    from waybill.spec.migration import Migration

SUFFIXES = (".yaml", ".yml", ".json")


class FoundMigrations(NamedTuple):
    """What a folder holds: usable migrations with their files, and a sentence for each other."""

    migrations: list[tuple[Path, Migration]]
    problems: list[str]


def migration_files(folder: Path) -> list[Path]:
    """The files of a folder that are meant as migrations, in the order of their names."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix in SUFFIXES and path.is_file() and not path.name.startswith((".", "_"))
    )


def read_migrations(
    folder: Path, load: Callable[[Path], Migration] | None = None
) -> FoundMigrations:
    """The migrations of a folder.

    Where two files give the same name, the one that is named like its migration has it, so that a
    copy does not take the place of the original.

    Args:
        folder: that holds their files.
        load: reads one of them; the library's own `load_migration` where left out.
    """
    from waybill.spec.file import load_migration

    load = load or load_migration
    if not folder.is_dir():
        message = f"there is no folder {folder}: make it, or name another in {VARIABLE}"
        return FoundMigrations([], [message])
    read, problems = [], []
    for file in migration_files(folder):
        try:
            read.append((file, load(file)))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one file stays with it
            problems.append(sentence(file, error))
    kept: dict[str, tuple[Path, Migration]] = {}
    for file, spec in sorted(read, key=lambda item: (item[0].stem != item[1].name, item[0])):
        if spec.name in kept:
            problems.append(
                f"{file}: the name {spec.name!r} is taken by {kept[spec.name][0].name}; give each "
                "migration a name of its own"
            )
        else:
            kept[spec.name] = (file, spec)
    return FoundMigrations(sorted(kept.values(), key=lambda item: item[0]), problems)


def file_of(name: str, folder: Path) -> Path | None:
    """The file that is meant as the migration of a name, be it usable or not; None if none is."""
    files = migration_files(folder) if folder.is_dir() else []
    return next((file for file in files if _name_in(file) == name), None)


def _name_in(file: Path) -> str:
    """The name that a file gives itself; its own where it cannot be read."""
    from waybill.spec.yaml_lines import MarkedError, read_marked

    try:
        data = read_marked(file.read_text(encoding="utf-8-sig"), json=file.suffix == ".json").data
    except (OSError, UnicodeDecodeError, MarkedError):
        return file.stem
    return str(data.get("name")) if isinstance(data, dict) else file.stem


def sentence(file: Path, error: Exception) -> str:
    """What is wrong with a file, with its name."""
    if isinstance(error, ConfigurationError) and str(file) in error.sentence:
        return error.sentence
    text = str(error).strip() or "cannot be read"
    return f"{file}: {type(error).__name__}: {text}"
