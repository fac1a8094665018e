"""Where the gate's results are kept, beside the lake, and how they are read back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from waybill.storage.file_store import file_name, open_store

if TYPE_CHECKING:
    from waybill.spec.migration import Migration
    from waybill.validate.result import GateResult

DATA, PAGE = "gate.json", "gate.html"


def reports_folder(spec: Migration, batch: str) -> str:
    """The folder of a batch's results: `<warehouse>/<migration>/reports/<batch>`."""
    return f"{spec.lake.warehouse.rstrip('/')}/{spec.name}/reports/{file_name(batch)}"


def keep(spec: Migration, result: GateResult) -> tuple[str, str]:
    """Write a result as JSON and as a page; returns both paths."""
    from waybill.validate.page import gate_page

    store = open_store(reports_folder(spec, result.batch))
    data = json.dumps(result.to_dict(), ensure_ascii=False, indent=1, default=str)
    for name, text in ((DATA, data), (PAGE, gate_page(result))):
        with store.write(name) as stream:
            # A name may hold half of a surrogate pair, which JSON allows and UTF-8 does not.
            stream.write(text.encode("utf-8", "backslashreplace"))
    return store.path(DATA), store.path(PAGE)


def read_page(spec: Migration, batch: str) -> str | None:
    """The page of a batch, None where the gate has not looked at it."""
    found = open_store(reports_folder(spec, batch)).read(PAGE)
    return None if found is None else found.decode()


def read_result(spec: Migration, batch: str) -> dict[str, Any] | None:
    """The result of a batch as plain data, None where the gate has not looked at it."""
    found = open_store(reports_folder(spec, batch)).read(DATA)
    return None if found is None else json.loads(found)
