"""Where the gate's results are kept, beside the lake, and how they are read back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from waybill.storage.file_store import TEMPORARY, file_name, open_store

if TYPE_CHECKING:
    from waybill.spec.migration import Migration
    from waybill.validate.measured import Trend
    from waybill.validate.result import GateResult

DATA, PAGE, TREND = "gate.json", "gate.html", "trend.json"

VALIDATIONS = "_validations"
"""The folder of all verdicts as validation results of Great Expectations, one file for each; no
batch can have this name."""


def reports_folder(spec: Migration, batch: str) -> str:
    """The folder of a batch's results: `<warehouse>/<migration>/reports/<batch>`."""
    return f"{spec.reports}/{file_name(batch)}"


def keep(spec: Migration, result: GateResult, trend: Trend | None = None) -> tuple[str, str]:
    """Write a result as JSON, as a page, and for Data Docs; returns the first two paths.

    Args:
        spec: the migration.
        result: the result.
        trend: the batches before; what is kept of them already where it is left out.
    """
    from waybill.validate.page import gate_page
    from waybill.validate.validations import file_of, validations_of

    store = open_store(reports_folder(spec, result.batch))
    data = json.dumps(result.to_dict(), ensure_ascii=False, indent=1, default=str)
    files = [(DATA, data)]
    if trend is None:
        trend = read_trend(spec, result.batch)
    else:
        files.append((TREND, json.dumps(trend._asdict(), ensure_ascii=False)))
    for name, text in (*files, (PAGE, gate_page(result, trend))):
        with store.write(name) as stream:
            # A name may hold half of a surrogate pair, which JSON allows and UTF-8 does not.
            stream.write(text.encode("utf-8", "backslashreplace"))
    content = json.dumps(validations_of(result), ensure_ascii=False)
    with open_store(_validations(spec)).write(file_of(result)) as stream:
        stream.write(content.encode("utf-8", "backslashreplace"))
    return store.path(DATA), store.path(PAGE)


def _validations(spec: Migration) -> str:
    return f"{spec.reports}/{VALIDATIONS}"


def validation_files(spec: Migration) -> list[str]:
    """Names of the files of all verdicts, oldest first."""
    names = open_store(_validations(spec)).names()
    return sorted(n for n in names if n.endswith(".json") and not n.startswith(TEMPORARY))


def read_validations(spec: Migration, name: str) -> list[dict[str, Any]] | None:
    """The validation results of one verdict, None where the file is gone."""
    found = open_store(_validations(spec)).read(name)
    return None if found is None else json.loads(found)


def read_page(spec: Migration, batch: str) -> str | None:
    """The page of a batch, None where the gate has not looked at it."""
    found = open_store(reports_folder(spec, batch)).read(PAGE)
    return None if found is None else found.decode()


def read_result(spec: Migration, batch: str) -> dict[str, Any] | None:
    """The result of a batch as plain data, None where the gate has not looked at it."""
    found = open_store(reports_folder(spec, batch)).read(DATA)
    return None if found is None else json.loads(found)


def read_trend(spec: Migration, batch: str) -> Trend:
    """What the rules of a batch measured in those before; empty where that was not kept."""
    from waybill.validate.measured import NO_TREND, Trend

    found = open_store(reports_folder(spec, batch)).read(TREND)
    return NO_TREND if found is None else Trend.from_dict(json.loads(found))
