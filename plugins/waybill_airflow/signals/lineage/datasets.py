"""Datasets with the facets that say what is in them and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

import attrs
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    catalog_dataset,
    column_lineage_dataset,
    dataset_version_dataset,
    documentation_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    storage_dataset,
    symlinks_dataset,
)

from waybill_airflow.signals.lineage import names

if TYPE_CHECKING:
    from openlineage.client.facet_v2 import DatasetFacet, InputDatasetFacet, OutputDatasetFacet

    from waybill.merge.origins import TableOrigin
    from waybill.spec.migration import Migration
    from waybill_airflow.signals.lineage.names import Name

MOST_COLUMNS = 10_000
"""An event tells the columns of so many at most, each counted once for every place that it comes
from; of further tables it tells that they are there."""

COPIED = [column_lineage_dataset.Transformation("DIRECT", "IDENTITY")]


@attrs.define
class _Schema(schema_dataset.SchemaDatasetFacet):
    """Columns.

    The provider looks for secrets in every word that it sends. There is none in names, and of many
    columns it would take longer than the provider waits for itself.
    """

    _additional_skip_redact: ClassVar[list[str]] = ["fields"]


@attrs.define
class _ColumnLineage(column_lineage_dataset.ColumnLineageDatasetFacet):
    """Where columns come from; see `_Schema`."""

    _additional_skip_redact: ClassVar[list[str]] = ["fields"]


def tables_with_columns(
    tables: Mapping[str, TableOrigin], rows: Mapping[str, int], times: int = 1
) -> dict[str, TableOrigin]:
    """The tables whose columns an event tells, those with most rows first.

    Args:
        tables: by source table.
        rows: how many rows of each were written.
        times: how often they are described.
    """
    described, left = {}, MOST_COLUMNS
    for name in sorted(tables, key=lambda name: (-rows.get(name, 0), name)):
        left -= len(tables[name].columns) * max(1, len(tables[name].topics)) * times
        if left < 0:
            break
        described[name] = tables[name]
    return described


def field_of(table: str, column: str) -> str:
    """A column of a table as a field of messages, which are of many tables."""
    return f"{table}.{column}"


def sources(spec: Migration, described: Mapping[str, TableOrigin]) -> list[InputDataset]:
    """What the rows of some tables were read from, with the columns that messages have of them.

    Where no table says what it comes from, all that the migration's file names.
    """
    found: dict[Name, dict[str, None]] = {name: {} for name in names.of_sources(spec)}
    for table, origin in described.items():
        for place in _places(spec, origin):
            fields = found.setdefault(place, {})
            fields |= {field_of(table, column.source): None for column in origin.columns}
    return [InputDataset(*place, facets=_schema(fields)) for place, fields in found.items()]


def merged(
    spec: Migration, table: str, origin: TableOrigin, described: bool
) -> tuple[Name, dict[str, DatasetFacet]]:
    """A merged table: what it is called, and facets.

    Args:
        spec: the migration.
        table: the source table.
        origin: what the merge reported of it.
        described: whether its columns are described.
    """
    facets: dict[str, DatasetFacet] = {
        "documentation": documentation_dataset.DocumentationDatasetFacet(
            f"The rows of {table}, merged by the migration {spec.name}."
        ),
        **lake_facets(spec, origin.lake),
    }
    if described:
        facets |= _schema({column.lake: column.type for column in origin.columns})
    return names.of_merged(spec, origin), facets


def came_from(spec: Migration, table: str, origin: TableOrigin) -> dict[str, DatasetFacet]:
    """Where the columns of a merged table come from."""
    places = _places(spec, origin)
    came = {c.lake: _copied(places, field_of(table, c.source)) for c in origin.columns}
    return _lineage(came)


def version(snapshot: str | None) -> dict[str, DatasetFacet]:
    """Which snapshot of a table a stage has made, nothing where it did not say so."""
    if snapshot is None:
        return {}
    return {"version": dataset_version_dataset.DatasetVersionDatasetFacet(snapshot)}


def lake_facets(spec: Migration, table: str) -> dict[str, DatasetFacet]:
    """What every table of the lake tells: how it is kept, and what its catalog calls it."""
    warehouse = _url(names.of_warehouse(spec))
    kind = spec.lake.catalog.get("type") or spec.lake.catalog.get("catalog-impl") or "jdbc"
    identifier = symlinks_dataset.Identifier(warehouse, table, "TABLE")
    return {
        "storage": storage_dataset.StorageDatasetFacet("iceberg", "parquet"),
        "symlinks": symlinks_dataset.SymlinksDatasetFacet([identifier]),
        "catalog": catalog_dataset.CatalogDatasetFacet(
            "iceberg", str(kind), "lake", warehouseUri=warehouse, source="spark"
        ),
    }


def log_read(spec: Migration, log: str, found: dict[str, InputDatasetFacet]) -> InputDataset:
    """A table of messages that a stage reads, and what it found there."""
    facets = lake_facets(spec, f"{spec.name}_log.{log}")
    return InputDataset(*names.of_log(spec, log), facets=facets, inputFacets=found)


def log_written(spec: Migration, log: str, rows: int | None) -> OutputDataset:
    """A table of messages that a stage writes."""
    facets = lake_facets(spec, f"{spec.name}_log.{log}")
    return OutputDataset(*names.of_log(spec, log), facets=facets, outputFacets=written(rows))


def messages(spec: Migration, described: Mapping[str, TableOrigin]) -> dict[str, DatasetFacet]:
    """What messages to a target have of the tables: the fields, and where each comes from."""
    came = {
        field_of(table, column.source): _copied(
            _places(spec, origin), field_of(table, column.source)
        )
        for table, origin in described.items()
        for column in origin.columns
    }
    return {**_schema(dict.fromkeys(came)), **_lineage(came)}


def read(
    rows: int | None, size: int | None = None, files: int | None = None
) -> dict[str, InputDatasetFacet]:
    """How much was read, nothing where it is not known."""
    if rows is None:
        return {}
    facet = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rows, size, files)
    return {"inputStatistics": facet}


def written(
    rows: int | None, size: int | None = None, files: int | None = None
) -> dict[str, OutputDatasetFacet]:
    """How much was written, nothing where it is not known."""
    if rows is None:
        return {}
    facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rows, size, files)
    return {"outputStatistics": facet}


def _places(spec: Migration, origin: TableOrigin) -> list[Name]:
    """Where the changes of a table came from, each place once."""
    found: Iterator[Name | None] = (names.of_source(spec, topic) for topic in origin.topics)
    return list(dict.fromkeys(place for place in found if place is not None))


def _copied(places: Iterable[Name], field: str) -> column_lineage_dataset.Fields:
    inputs = [
        column_lineage_dataset.InputField(*place, field, transformations=COPIED) for place in places
    ]
    return column_lineage_dataset.Fields(inputs)


def _lineage(fields: dict[str, column_lineage_dataset.Fields]) -> dict[str, DatasetFacet]:
    if not fields:
        return {}
    return {"columnLineage": _ColumnLineage(fields)}


def _schema(types: Mapping[str, str | None]) -> dict[str, DatasetFacet]:
    if not types:
        return {}
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name, type_, ordinal_position=number)
        for number, (name, type_) in enumerate(types.items(), start=1)
    ]
    return {"schema": _Schema(fields)}


def _url(name: Name) -> str:
    """A name as one URI."""
    if "://" in name.namespace:
        return f"{name.namespace}/{name.name.lstrip('/')}"
    return f"{name.namespace}:{name.name}"
