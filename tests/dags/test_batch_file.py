"""The migration's file on the page of a batch, what changed in it, and where figures lead."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api import security
from fastapi.testclient import TestClient

from tests.dags.showcase import HOSTILE, Showcase
from waybill.overview.files import FILES, read_account, read_file_text, read_index, reports
from waybill.overview.schema import TableAccount, encoded
from waybill.overview.writing import write_overview
from waybill.storage.file_store import file_name
from waybill_airflow.web import app, batch_view
from waybill_airflow.web.file_view import file_view
from waybill_airflow.web.rendering import page
from waybill_airflow.web.rights import Rights

pytestmark = pytest.mark.airflow

FIRST, SECOND, THIRD, FOURTH = (f"b-{number}" for number in range(1, 5))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Batches that ran with other texts of the file."""
    showcase = Showcase(tmp_path)
    monkeypatch.setenv("WAYBILL_MIGRATIONS", str(showcase.migrations))
    monkeypatch.setattr(batch_view, "runs_by_batch", lambda _dag_id, _limit: {})
    lake = showcase.with_lake("orders", lambda _lake: None, batches=0)

    def run(batch: str, more: str, then: str | None = None) -> None:
        spec = showcase.file("orders", more)
        lake.file = spec.digest
        lake.snapshot(batch, 10)
        write_overview(spec, lake)
        if then is not None:
            spec = showcase.file("orders", then)
            lake.file = spec.digest
        lake.convert(batch, 2)
        lake.validate(batch, lake.merge(batch))
        lake.publish(batch)
        write_overview(spec, lake)

    run(FIRST, "owner: ann")
    run(SECOND, "owner: ann")
    run(THIRD, f"owner: ben\n# {HOSTILE}")
    run(FOURTH, "owner: carl", "owner: dora\nspark: {spark.x.password: hunter2}")
    return showcase


def shown(place, batch: str):
    spec = place.file("orders", "")
    return file_view(spec, read_account(spec, batch))


def rendered(place, batch: str, with_file: bool = True) -> str:
    spec = place.file("orders", "")
    return page("batch", view=batch_view.batch_view(spec, batch, None, with_file))


def lines(of) -> list[str]:
    return [line.text for line in of if line.kind in ("added", "removed")][2:]


def test_a_text_is_kept_once_for_each_that_ran(place):
    folder = Path(reports(place.file("orders")), FILES)
    # That of the first overview is among them, which was written before any batch.
    assert len(list(folder.iterdir())) == 1 + 4
    index = read_index(place.file("orders"))
    digests = [line.file for line in index.batches]
    assert digests[2] == digests[3]
    assert len({*digests}) == 3
    assert "owner: ann" in read_file_text(place.file("orders"), digests[3])


def test_what_changed_since_the_batch_before(place):
    first, second, third = (shown(place, batch) for batch in (FIRST, SECOND, THIRD))
    assert (first.before, first.changes, first.same) == ("", [], False)
    assert (second.before, second.changes, second.same) == (FIRST, [], True)
    assert (third.before, third.same) == (SECOND, False)
    assert lines(third.changes) == ["-owner: ann", "+owner: ben", f"+# {HOSTILE}"]


def test_what_changed_while_a_batch_was_under_way(place):
    view = shown(place, FOURTH)
    assert lines(view.within)[:2] == ["-owner: carl", "+owner: dora"]
    assert "+owner: dora" in lines(view.changes)
    assert "hunter2" not in view.text
    assert "hunter2" not in rendered(place, FOURTH)


def test_nothing_secret_is_in_the_lake(place):
    folder = Path(reports(place.file("orders")))
    texts = [file.read_text() for file in folder.rglob("*") if file.is_file()]
    assert any("(hidden)" in text for text in texts)
    assert not any("hunter2" in text for text in texts)


def test_the_page_shows_both_and_runs_nothing(place):
    text = rendered(place, THIRD)
    assert "<script>alert" not in text
    assert '<span class="removed">-owner: ann</span>' in text
    assert "What changed since batch" in text
    assert "owner: ben" in re.search(r"<details>.*?</details>", text, re.DOTALL)[0]
    assert "Unchanged since batch" in rendered(place, SECOND)
    assert "No earlier batch has a known text" in rendered(place, FIRST)


def test_a_text_that_is_gone_is_said_to_be(place):
    folder = Path(reports(place.file("orders")), FILES)
    for file in folder.iterdir():
        file.unlink()
    text = rendered(place, THIRD)
    assert "no longer has its text" in text
    assert "differs from the file of batch" in text


def test_batches_of_earlier_versions_know_no_text(place):
    spec = place.file("orders")
    account = read_account(spec, FIRST)
    old = msgspec.structs.replace(
        account, stages=[msgspec.structs.replace(stage, file="") for stage in account.stages]
    )
    assert file_view(spec, old) is None
    put(spec, old)
    assert "did not record the text" in rendered(place, FIRST)


def put(spec, account) -> None:
    Path(reports(spec), file_name(account.batch), "waybill.json").write_bytes(encoded(account))


@pytest.mark.parametrize("may", [True, False])
def test_the_text_needs_the_right_to_the_code(place, monkeypatch, may):
    """As the code of the DAG does, which it is in another form."""

    class Manager:
        def is_authorized_dag(self, *, method, access_entity, details, user):
            assert (method, details.id, user.name) == ("GET", "orders", "ann")
            return may or access_entity != DagAccessEntity.CODE

    from waybill_airflow.web import rights

    no_team = SimpleNamespace(get_team_name=lambda _dag_id: None)
    for module in (security, rights):
        monkeypatch.setattr(module, "get_auth_manager", Manager)
        monkeypatch.setattr(module, "DagModel", no_team)
    assert Rights(SimpleNamespace(name="ann")).reads_file("orders") == may
    made = app.make_app()
    made.dependency_overrides[security.get_user] = lambda: SimpleNamespace(name="ann")
    text = TestClient(made).get(f"/batches/orders/{THIRD}").text
    assert ("owner: ben" in text) == may
    assert ("It needs the right to read the DAG's code" in text) == (not may)


# Where figures lead.


def test_refused_figures_lead_to_the_refused_messages_of_the_batch(place):
    text = rendered(place, THIRD)
    assert f'href="/waybill/quarantine/orders?batch={THIRD}">2</a>' in text
    assert f'href="/waybill/quarantine/orders?batch={THIRD}&amp;kind=json">2 json</a>' in text


def test_every_other_figure_leads_somewhere_on_the_page(place):
    spec = place.file("orders")
    account = read_account(spec, THIRD)
    stages = [
        msgspec.structs.replace(
            stage, extra_in={"replayed": 12}, superseded=3, skipped={"heartbeat": 4}, waiting=5
        )
        if stage.stage == "convert"
        else stage
        for stage in account.stages
    ]
    altered = TableAccount(HOSTILE, columns=["note was added"], refused=1)
    put(spec, msgspec.structs.replace(account, stages=stages, tables=[*account.tables, altered]))
    text = rendered(place, THIRD)
    ids = set(re.findall(r' id="([^"]+)"', text))
    anchors = set(re.findall(r'href="#([^"]+)"', text)) - {"main"}
    assert anchors >= {"lists", "targets", "tables"}
    assert anchors <= ids
    assert text.count('href="#lists">') == 4, "each figure but those that have a list of their own"
    for words in ("Rows further", "Superseded changes", "Skipped messages", "Waiting changes"):
        assert f"{words} " in text
    assert "a table that waits for a decision" in " ".join(text.split())
    assert "note was added" in text
    assert "table=%3Cscript%3E" in text
    assert "<script>alert" not in text


def test_figures_that_are_nothing_lead_nowhere(place):
    assert "Where the other figures are" not in rendered(place, FIRST)
    assert "It changed no columns." in rendered(place, FIRST)
