"""What a migration takes from the environment, and what is never repeated of it."""

from __future__ import annotations

import pytest

from tests.unit.spec.spec_files import GOOD, KAFKA, problems, writer_in
from waybill.spec.file import load_migration


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.delenv("WAYBILL_LAKE", raising=False)
    return writer_in(tmp_path / "migrations")


def test_variables_are_filled_in(write, monkeypatch, tmp_path):
    monkeypatch.setenv("IN", "s3://bucket/in")
    monkeypatch.delenv("OUT", raising=False)
    text = GOOD.replace("path: in", 'path: "${IN}"').replace("path: out", 'path: "${OUT:-other}/x"')
    text += 'description: "costs $${IN} $5 ${}"\n'
    migration = load_migration(write(text))
    assert migration.source.files.path == "s3://bucket/in"
    assert migration.publish[0].files.path == str(tmp_path / "migrations/other/x")
    assert migration.description == "costs ${IN} $5 ${}"


def test_a_variable_that_is_not_set_is_a_problem_among_the_others(write, monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    text = GOOD.replace("path: in", 'path: "${NOWHERE}"').replace("name: shop", "name: Shop")
    assert problems(write(text)) == [
        "1: name - use lower-case letters, digits and _, starting with a letter",
        "3: source.files.path needs ${NOWHERE}, which is not set; "
        "set it or write ${NOWHERE:-default}",
    ]


def test_what_came_from_the_environment_is_never_repeated(write, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    text = GOOD.replace('"decimal(38,10)"', '"${SECRET}"')
    text += 'lake: {warehouse: /lake, catalog: "${SECRET}"}\non_loss: "${SECRET}"\n'
    found = problems(write(text))
    assert len(found) == 3
    assert "hunter2" not in "\n".join(found)


def test_an_envelope_and_suites_from_the_environment_are_not_repeated(write, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    text = GOOD.replace("oms-default", '"${SECRET}"')
    text += 'quality: {suites: ["${SECRET}", "/${SECRET}/x.json"]}\n'
    withheld = "does not hold a value that is allowed here (from a variable)"
    assert problems(write(text)) == [
        f"4: source.envelope {withheld}",
        f"9: quality.suites[0] {withheld}",
        f"9: quality.suites[1] {withheld}",
    ]


def test_what_is_wrong_with_several_fields_tells_their_variables(write, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    text = KAFKA.replace("SOURCE", 'pattern: "hunter.*"').replace("TARGET", 'topic: "${SECRET}"')
    (sentence,) = problems(write(text))
    assert "the target 'maxwell' publishes to the topic ${SECRET}, which" in sentence


def test_a_variable_in_a_name_is_refused_and_not_taken_for_text(write, monkeypatch):
    monkeypatch.setenv("DB", "prod")
    text = GOOD.replace("shop.orders", '"${DB}.orders"') + 'spark: {"${DB:-x}": a, "$${DB}": b}\n'
    sentence = "needs the name itself: ${…} is filled in in values only"
    assert problems(write(text)) == [
        f'6: tables."${{DB}}.orders" {sentence}',
        f"9: spark.${{DB:-x}} {sentence}",
    ]


def test_a_catalog_password_is_not_in_the_text_of_a_migration(write, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    text = GOOD + 'lake: {warehouse: /lake, catalog: {jdbc.password: "${SECRET}"}}\n'
    migration = load_migration(write(text))
    assert migration.lake.catalog == {"jdbc.password": "hunter2"}
    assert "hunter2" not in repr(migration)
    assert "hunter2" not in str(migration)


def test_the_lake_of_a_migration_that_names_none_follows_the_environment(
    write, monkeypatch, tmp_path
):
    monkeypatch.setenv("WAYBILL_LAKE", "s3://bucket/lake")
    assert load_migration(write(GOOD)).lake.warehouse == "s3://bucket/lake"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAYBILL_LAKE", "here")
    assert load_migration(write(GOOD)).lake.warehouse == str(tmp_path / "here")
