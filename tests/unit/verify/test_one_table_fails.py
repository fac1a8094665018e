"""A table that cannot be verified is asked nothing twice, and takes nothing from the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.verify.test_history import SPEC
from waybill.errors import Code, ConfigurationError, LakeError, UnreachableError, WaybillError
from waybill.spec.verification import Verify
from waybill.verify import run
from waybill.verify.database import DatabaseView, SourceTable
from waybill.verify.deciding import LakeState
from waybill.verify.newest import FAILED, SKIPPED, VERIFIED
from waybill.verify.plan import NO_TABLE, Compared

LAKE = SPEC.lake.model_copy(update={"warehouse": "/lake"})
STATE = LakeState(11, "b1", "b1", "", None, None, 12, False)
TABLE = Compared("shop.t", "lake.shop.t", SourceTable(("shop", "t"), ()), (), True, (), ())


class Database:
    """Answers a number of times."""

    kind = "mysql"

    def __init__(self, answers: int) -> None:
        self.answers = answers

    def begin(self) -> DatabaseView:
        if not self.answers:
            raise UnreachableError("the server is gone")
        self.answers -= 1
        return DatabaseView(0, None)

    def count(self, _: object) -> int:
        return 7


class LakeWithRecords:
    def shown_rows(self, _: str, snapshot: int | None) -> int:
        assert snapshot == STATE.snapshot
        return 5


def result_of(monkeypatch: pytest.MonkeyPatch, error: Exception, answers: int) -> Any:
    """The result of a table of which nobody can read the rows."""

    def unreadable(*_: object) -> int:
        raise error

    monkeypatch.setattr(run, "lake_state", lambda *_: STATE)
    monkeypatch.setattr("waybill.verify.counting.live_rows", unreadable)
    monkeypatch.setattr(run, "live_rows", unreadable)
    verify = Verify(database="source")
    lake, database = LakeWithRecords(), Database(answers)
    facts: Any = (
        lake,
        SPEC.model_copy(update={"lake": LAKE}),
        verify,
        TABLE,
        database,
        0.0,
        lambda *_: None,
        None,
    )
    (result,) = run._VerifiedTable(*facts).results("counts")
    return result


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (LakeError("a data file is gone", code=Code.LAKE_FILE_LOST), False),
        (ConfigurationError("permission denied"), False),
        (UnreachableError("deadlock"), True),
    ],
)
def test_what_failed_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, error: WaybillError, transient: bool
):
    result = result_of(monkeypatch, error, answers=2)
    assert (result.outcome, result.transient, result.in_lake) == (FAILED, transient, 5)
    assert result.sentence == str(error)


def test_a_file_that_java_misses_is_the_tables_own_trouble(monkeypatch: pytest.MonkeyPatch):
    gone = "/lake/shop/t/data/1.parquet"
    error = RuntimeError(f"java.io.FileNotFoundException: File {gone} does not exist")
    result = result_of(monkeypatch, error, answers=1)
    assert (result.outcome, result.transient) == (FAILED, False)
    assert str(Code.LAKE_FILE_LOST) in result.sentence


def test_a_server_that_is_gone_ends_the_verification(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UnreachableError, match="deadlock"):
        result_of(monkeypatch, UnreachableError("deadlock"), answers=1)


@pytest.mark.parametrize(
    ("why_not", "rows", "gone", "expected"),
    [
        (NO_TABLE, 0, True, VERIFIED),
        (NO_TABLE, 0, False, SKIPPED),
        (NO_TABLE, 1, True, FAILED),
        ("permission denied", 0, True, FAILED),
    ],
)
def test_a_table_that_the_database_does_not_show(
    monkeypatch: pytest.MonkeyPatch, why_not: str, rows: int, gone: bool, expected: str
):
    state = SimpleNamespace(table=lambda _: None)
    monkeypatch.setattr(run, "position_of", lambda *_: SimpleNamespace(state=state))
    monkeypatch.setattr(run, "lake_state", lambda *_: STATE)
    monkeypatch.setattr(run, "live_rows", lambda *_: rows)
    monkeypatch.setattr(run, "is_dropped", lambda *_: gone)
    table = TABLE._replace(source=None, why_not=why_not)
    verify = Verify(database="source")
    facts: Any = (LakeWithRecords(), SPEC, verify, table, Database(9), 0.0, lambda *_: None, None)
    (result,) = run._VerifiedTable(*facts).results("full")
    assert (result.outcome, result.sentence, result.in_lake) == (expected, why_not, rows)
