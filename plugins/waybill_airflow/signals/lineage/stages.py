"""The lineage of one stage of one batch.

A stage reads and writes what it names here. Merge and publish name the source, too, although they
read what earlier stages have archived: from there come the columns of tables and messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset, InputDataset, OutputDataset
from openlineage.client.facet_v2 import RunFacet

from waybill.merge.origins import read_origins
from waybill.validate.results import read_result
from waybill_airflow.signals.lineage import datasets, names, quality
from waybill_airflow.signals.lineage.names import ARCHIVE, CHANGES, OUTBOX

if TYPE_CHECKING:
    from waybill.merge.origins import TableOrigin
    from waybill.spec.migration import Migration

    Lineage = OperatorLineage[Dataset, RunFacet]

RUN_FACET = "waybill_batch"

_Ends = tuple[list[InputDataset], list[OutputDataset]]


def lineage_of(spec: Migration, report: dict[str, Any], published: list[str]) -> Lineage:
    """What a stage has read and written.

    Args:
        spec: the migration.
        report: of the stage, see `StageReport.to_json_safe`.
        published: the batches whose messages the stage has published.

    Raises:
        ConfigurationError: a connection is not there.
        UnavailableError: the lake's store does not answer.
    """
    inputs, outputs = _STAGES[report["stage"]](spec, report, published)
    return OperatorLineage(
        inputs=[*inputs], outputs=[*outputs], run_facets={RUN_FACET: _account(spec, report)}
    )


def _account(spec: Migration, report: dict[str, Any]) -> RunFacet:
    """The batch and its account, beside the facets that OpenLineage has words for."""
    facet = RunFacet().with_additional_properties(
        migration=spec.name,
        batch=report["batch"],
        stage=report["stage"],
        repeated=report["repeated"],
        rows={
            "in": report["rows_in"],
            "extraIn": sum(report["extra_in"].values()),
            "out": report["rows_out"],
            "refused": sum(report["refused"].values()),
            "superseded": report["superseded"],
            "skipped": sum(report["skipped"].values()),
            "waiting": report["waiting"],
        },
    )
    return cast("RunFacet", facet)


def _rows(report: dict[str, Any], rows: int) -> int | None:
    """A figure of a stage; none where it found its work done, so that nobody adds it up twice."""
    return None if report["repeated"] else rows


def _read(spec: Migration, log: str, report: dict[str, Any]) -> InputDataset:
    """The table of messages that a stage has read, all that came in by it."""
    return datasets.log_read(spec, log, datasets.read(_rows(report, report["rows_in"])))


def _snapshot(spec: Migration, report: dict[str, Any], _published: list[str]) -> _Ends:
    details = report["details"]
    found: dict[names.Name, dict[str, Any]] = {place: {} for place in names.of_sources(spec)}
    dumps = sum(details.get("full_loads", {}).values())
    if spec.source.files is not None:
        (place,) = found
        rows = _rows(report, report["rows_in"] - dumps)
        found[place] = datasets.read(rows, details.get("bytes"), details.get("new_files"))
    elif spec.source.kafka is not None:
        rows_of: dict[str, int] = {}
        for span in details.get("ranges", []):
            rows_of[span["topic"]] = rows_of.get(span["topic"], 0) + span["rows"]
        # Some ranges are listed; where these are not all, nobody knows the rows of a topic.
        whole = sum(rows_of.values()) == report["rows_in"] - dumps
        for topic, rows in rows_of.items():
            place = names.of_topic(spec.source.kafka.connection, topic)
            found[place] = datasets.read(_rows(report, rows) if whole else None)
    if dumps:
        for table in spec.full:
            found.setdefault(names.of_read_files(spec.full[table].path), {})
    inputs = [InputDataset(*place, inputFacets=facets) for place, facets in found.items()]
    return inputs, [datasets.log_written(spec, ARCHIVE, _rows(report, report["rows_out"]))]


def _convert(spec: Migration, report: dict[str, Any], _published: list[str]) -> _Ends:
    sent = sum(target["messages"] for target in report["details"].get("targets", {}).values())
    outputs = [datasets.log_written(spec, CHANGES, _rows(report, report["rows_out"]))]
    if spec.publish:
        outputs.append(datasets.log_written(spec, OUTBOX, _rows(report, sent)))
    return [_read(spec, ARCHIVE, report)], outputs


def _merge(spec: Migration, report: dict[str, Any], _published: list[str]) -> _Ends:
    tables = read_origins(spec, report["batch"]).tables
    out = {name: report["details"].get(name, {}).get("out", 0) for name in tables}
    described = datasets.tables_with_columns(tables, out)
    outputs = []
    for table, origin in tables.items():
        name, facets = datasets.merged(spec, table, origin, table in described)
        facets |= datasets.version(report["snapshots"].get(f"lake.{origin.lake}"))
        if table in described:
            facets |= datasets.came_from(spec, table, origin)
        how_much = datasets.written(_rows(report, out[table]))
        outputs.append(OutputDataset(*name, facets=facets, outputFacets=how_much))
    read = _read(spec, CHANGES, report)
    return [read, *datasets.sources(spec, described)], outputs


def _validate(spec: Migration, report: dict[str, Any], _published: list[str]) -> _Ends:
    result = read_result(spec, report["batch"])
    if result is None:
        return [], []
    inputs = []
    tables = read_origins(spec, report["batch"]).tables
    described = datasets.tables_with_columns(tables, {})
    for table, origin in tables.items():
        name, facets = datasets.merged(spec, table, origin, table in described)
        found = quality.facets_of(result, "table", table)
        inputs.append(InputDataset(*name, facets=facets, inputFacets=found))
    judged: dict[names.Name, dict[str, Any]] = {}
    for topic in quality.topics_of(result):
        place = names.of_source(spec, topic)
        # Of several topics from one place, the first tells.
        if place is not None:
            judged.setdefault(place, quality.facets_of(result, "topic", topic))
    inputs += [InputDataset(*place, inputFacets=found) for place, found in judged.items()]
    if spec.publish:
        inputs.append(datasets.log_read(spec, OUTBOX, quality.of_targets(result)))
    return inputs, []


def _publish(spec: Migration, report: dict[str, Any], published: list[str]) -> _Ends:
    tables: dict[str, TableOrigin] = {}
    for batch in published or [report["batch"]]:
        for table, origin in read_origins(spec, batch).tables.items():
            tables.setdefault(table, origin)
    described = datasets.tables_with_columns(tables, {}, times=len(spec.publish))
    facets = datasets.messages(spec, described)
    outputs = []
    for target in spec.publish:
        sent = report["details"].get(target.label, {})
        files = sent.get("parts") if target.files is not None else None
        how_much = datasets.written(
            _rows(report, sent.get("messages", 0)), sent.get("bytes"), files
        )
        name = names.of_target(target)
        outputs.append(OutputDataset(*name, facets=dict(facets), outputFacets=how_much))
    read = _read(spec, OUTBOX, report)
    return [read, *datasets.sources(spec, described)], outputs


_STAGES: dict[str, Callable[[Any, dict[str, Any], list[str]], _Ends]] = {
    "snapshot": _snapshot,
    "convert": _convert,
    "merge": _merge,
    "validate": _validate,
    "publish": _publish,
}
