"""A migration that is being drawn up: what is decided, and what is left for a person."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waybill.spec.feedback_loops import own_output
from waybill.storage.file_store import file_name

if TYPE_CHECKING:
    from waybill.cli.drafts.evidence import TableSeen
    from waybill.cli.drafts.proven_types import Types
    from waybill.cli.drafts.reading import SourceReading
    from waybill.cli.drafts.source_look import Look
    from waybill.cli.drafts.target_trial import TargetTrial

MOST_TABLES = 200
"""Tables that a file lists; a source with more is described by patterns."""


@dataclass
class DraftTarget:
    """One target.

    Attributes:
        envelope: its envelope.
        trial: what became of the sample in it.
        path: the folder of its files; None for a topic.
        layout: of its files.
        topic: its topic; None for files.
        connection: the connection to the brokers.
        settings: those of its writing.
        name: its name, where two targets have one envelope.
    """

    envelope: str
    trial: TargetTrial
    path: str | None = None
    layout: str = "lines"
    topic: str | None = None
    connection: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    name: str | None = None


@dataclass
class Draft:
    """A migration that is being drawn up.

    Attributes:
        look: what was looked at.
        reading: how it is read.
        file: where the migration will stand.
        name: its name.
        keys: key columns that were declared, by table.
        types: types that were declared or taken from the sample, by table and column.
        guesses: types that the sample suggests for columns that have none, likewise.
        targets: where it publishes.
        bootstrap: servers that were given in place of a connection.
    """

    look: Look
    reading: SourceReading
    file: Path
    name: str
    keys: dict[str, list[str]] = field(default_factory=dict)
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    guesses: Types = field(default_factory=dict)
    targets: list[DraftTarget] = field(default_factory=list)
    bootstrap: str | None = None

    @property
    def folder(self) -> Path:
        """The folder of the file, from which relative paths are meant."""
        # As the file will be read: through links.
        return self.file.absolute().parent.resolve()

    @property
    def project(self) -> Path:
        """The folder of everything: the one that holds `migrations`, or the file's own."""
        folder = self.folder
        return folder.parent if folder.name == "migrations" else folder

    @property
    def tables(self) -> list[TableSeen]:
        """The tables of the sample that the file lists."""
        found = sorted(self.reading.evidence.tables.values(), key=lambda table: table.name)
        return [table for table in found if _is_nameable(table.name)][:MOST_TABLES]

    @property
    def warehouse(self) -> str | None:
        """The lake, None where the usual place is right."""
        if os.environ.get("WAYBILL_LAKE") or self.folder.name == "migrations":
            return None
        return str(self.project / ".waybill" / "lake")

    def take_types(self) -> None:
        """Declare every type that the sample suggests."""
        for table, guesses in self.guesses.items():
            columns = self.types.setdefault(table, {})
            for column, guess in guesses.items():
                columns.setdefault(column, guess.type)

    def relative(self, path: str) -> str:
        """A path as the file names it: from its folder where it is in the same project."""
        if "://" in path or not Path(path).is_absolute():
            return path
        return (
            os.path.relpath(path, self.folder) if Path(path).is_relative_to(self.project) else path
        )

    def output_folder(self, envelope: str) -> str:
        """A folder for a target that the migration does not read itself."""
        from waybill.spec.endpoints import FilesTarget, Source, Target

        used = {target.path for target in self.targets}
        source = Source.model_validate({**self.look.fields, "envelope": envelope})
        for folder in _folders(self.project, self.name, file_name(envelope)):
            target = Target(envelope=envelope, files=FilesTarget(path=folder))
            lake = self.warehouse or str(self.project / ".waybill" / "lake")
            if folder not in used and own_output(source, [target], lake) is None:
                return folder
        raise AssertionError("a hidden folder is never read")

    def target_name(self, envelope: str) -> str | None:
        """A name for a target where another one has its envelope."""
        taken = {target.name or target.envelope for target in self.targets}
        if envelope not in taken:
            return None
        number = 2
        while f"{envelope}-{number}" in taken:
            number += 1
        return f"{envelope}-{number}"


def _folders(project: Path, name: str, envelope: str) -> Iterator[str]:
    """Folders for a target, the likeliest first; a source sees none that is hidden."""
    for base in ("out", ".waybill/out"):
        yield str(project / base / name / envelope)
    number = 2
    while True:
        yield str(project / ".waybill" / "out" / name / f"{envelope}-{number}")
        number += 1


def _is_nameable(name: str) -> bool:
    """Whether a table can be declared: `${` is a variable, which no name of a field may hold."""
    return "${" not in name and "*" not in name
