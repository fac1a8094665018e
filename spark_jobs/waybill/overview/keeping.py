"""What stages leave for the pages when they end, well or badly; nothing here makes a stage fail."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from waybill.errors import GateError, WaybillError, described
from waybill.overview.failures import note_failure
from waybill.overview.files import FAILURE, reports
from waybill.overview.schema import VERSION, StageFailure, encoded
from waybill.storage.file_store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from waybill.lake.history import History
    from waybill.spec.migration import Migration

_log = logging.getLogger("waybill")


def keep_overview(migration: Migration, lake: History, worked: str | None = None) -> None:
    """Write what people see of the migration (`waybill.overview`).

    Whoever calls has committed by now, so that nothing that goes wrong here may make them fail: the
    next stage writes all of it again.

    Args:
        migration: the migration.
        lake: its lake.
        worked: see `write_overview`.
    """
    from waybill.overview.writing import write_overview

    try:
        write_overview(migration, lake, worked)
    except Exception as error:  # noqa: BLE001 - see above
        failure = described(error)
        _log.warning(
            "the pages about %s show what was known before, because their figures could not be "
            "written (%s: %s); the batch is not concerned, and the next stage writes them",
            *(migration.name, failure["kind"], failure["message"]),
        )


@contextmanager
def failures_kept(migration: Migration, stage: str, batch: str) -> Iterator[None]:
    """Keep why a stage stops inside of the block, and let the error go on.

    A batch that the gate holds is not a failure: its result says why.

    Args:
        migration: the migration.
        stage: its name; empty where a run stops before its first stage.
        batch: its batch.
    """
    try:
        yield
    except GateError:
        raise
    except Exception as error:
        _keep_failure(migration, stage, batch, error)
        raise


def _keep_failure(migration: Migration, stage: str, batch: str, error: Exception) -> None:
    found = described(error)
    expected = isinstance(error, WaybillError)
    code = error.code if isinstance(error, WaybillError) else None
    failure = StageFailure(
        VERSION,
        batch,
        stage,
        int(time.time() * 1000),
        "" if code is None else code.label,
        "" if code is None else code.title,
        found["message"] if expected else f"{found['kind']}: {found['message']}",
    )
    try:
        store = open_store(reports(migration))
        with store.write(FAILURE) as stream:
            stream.write(encoded(failure))
        note_failure(migration, store, failure)
    except Exception as other:  # noqa: BLE001 - the stage's own error is the one that counts
        unwritten = described(other)
        _log.warning(
            "the page of %s does not show why the stage stopped, because it could not be written "
            "(%s: %s)",
            *(migration.name, unwritten["kind"], unwritten["message"]),
        )
