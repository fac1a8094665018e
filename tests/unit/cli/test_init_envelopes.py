"""`waybill init` over every golden case and every target: the envelope, a file that can be read."""

from __future__ import annotations

import pytest

from tests.unit.cli.drafting import decided, drafted, golden_options, wrong
from tests.unit.inprocess.test_detect import CASES, case_of, own_cases, twins_of
from waybill.cli.check import check
from waybill.cli.drafts.draft import Draft, DraftTarget
from waybill.cli.drafts.migration_text import migration_text
from waybill.cli.drafts.proven_types import proven_types
from waybill.cli.drafts.reading import SeveralFit, read
from waybill.cli.drafts.source_look import look
from waybill.cli.drafts.target_trial import TargetTrial, try_target
from waybill.cli.findings import WRONG
from waybill.cli.init import InitOptions, _rules, _settings
from waybill.cli.options import schemas_in
from waybill.envelopes import registry
from waybill.errors import ConfigurationError
from waybill.records import ROW_OPERATIONS
from waybill.spec.file import load_migration


def rows_of(path):
    return sum(change.get("operation") in ROW_OPERATIONS for change in case_of(path).changes)


FULLEST = {
    name: max(own_cases(name), key=rows_of)
    for name in registry.names()
    if registry.get(name).decoder is not None
}
"""The case of each envelope with the most rows."""


NOTHING = {("canal", "key_column_not_in_the_row"), ("debezium-json", "tombstones")}
"""Cases whose messages are all refused later, or all skipped."""


def attempt(*given):
    try:
        return read(*given), None
    except ConfigurationError as error:
        return None, error


@pytest.mark.parametrize(("name", "path"), CASES, ids=lambda v: getattr(v, "stem", v))
def test_every_golden_case_becomes_a_file_that_can_be_read(tmp_path, name, path):
    """Its envelope is found, or two fit; with every proposal taken it is a file."""
    given = InitOptions(**golden_options(tmp_path, path))
    settings = _settings(given.settings)["from"]
    schemas = None if given.schemas is None else schemas_in(given.schemas)
    found = look(given.source, None, "", 1000)
    reading, error = attempt(found, None, settings, schemas, _rules(given))
    if (name, path.stem) in NOTHING:
        assert "nothing of the sample can be read" in error.sentence
        return
    if error is not None:
        assert isinstance(error, SeveralFit), error
        assert name in error.names
        assert set(error.names) <= {name} | twins_of(name, path)
        assert "--envelope" in error.sentence
        reading = read(found, name, settings, schemas, _rules(given))
    assert reading.envelope.name == name
    reading.schemas_file = None if given.schemas is None else str(given.schemas)
    file = tmp_path / "drawn_up.yaml"
    draft = Draft(found, reading, file, "drawn_up")
    draft.guesses = proven_types(reading, found.messages, _rules(given))
    for target in ("canal", "datahub-blob", "debezium-json"):
        trial = try_target(reading, target, {}, reading.evidence.changes)
        draft.targets.append(DraftTarget(target, trial, draft.output_folder(target), trial.layout))
    for _ in range(2):
        file.write_text(migration_text(draft), encoding="utf-8")
        spec = load_migration(file)
        assert (spec.name, spec.source.envelope) == ("drawn_up", name)
        assert spec.source.settings == {k: v for k, v in reading.settings.items() if k != "schemas"}
        every = load_migration(decided(file))
        assert every.schedule == "@hourly"
        # The second time without a target.
        draft.targets = []
    assert len(every.publish) == 1


@pytest.mark.parametrize("name", FULLEST)
def test_the_file_of_every_envelope_passes_the_check(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    options = golden_options(tmp_path, FULLEST[name])
    data = drafted(capsys, name="drawn_up", envelope=name, **options)
    assert (data["code"], wrong(data)) == (0, [])
    assert data["envelope"] == name
    assert any(table["operations"] for table in data["tables"])
    spec = load_migration(decided(tmp_path / "drawn_up.yaml"))
    assert [str(f) for f in check(spec) if f.verdict == WRONG] == []


WRITTEN = [e.name for e in registry.all_envelopes() if e.encoder is not None]


@pytest.mark.parametrize("target", WRITTEN)
def test_a_file_with_every_target_passes_the_check(tmp_path, monkeypatch, capsys, target):
    monkeypatch.chdir(tmp_path)
    case = next(path for path in own_cases("canal") if path.stem == "insert_of_two_rows")
    options = golden_options(tmp_path, case)
    data = drafted(capsys, name="drawn_up", targets=[target], **options)
    assert (data["code"], wrong(data)) == (0, [])
    spec = load_migration(tmp_path / "drawn_up.yaml")
    (published,) = spec.publish
    assert published.envelope == target
    assert published.files is not None
    losses = registry.get("canal").losses_to(registry.get(target), {})
    text = (tmp_path / "drawn_up.yaml").read_text(encoding="utf-8")
    assert (f"DECIDE: whether {target} may lose" in text) == bool(losses)
    assert all(capability in text for capability in losses)
    binary = target.endswith("-avro") or target.startswith("databus")
    assert published.files.layout == ("parquet" if binary else "lines")
    spec = load_migration(decided(tmp_path / "drawn_up.yaml"))
    registered = [f for f in check(spec) if f.verdict == WRONG and "registry" not in f.text]
    assert [str(f) for f in registered] == []


def test_types_that_are_declared_hold_the_sample(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = golden_options(tmp_path, FULLEST["oms-default"])
    data = drafted(capsys, name="drawn_up", declare_types=True, **options)
    assert (data["code"], wrong(data)) == (0, [])
    spec = load_migration(tmp_path / "drawn_up.yaml")
    assert any(table.columns for table in spec.tables.values())


@pytest.mark.parametrize("target", ["debezium-avro", "ibmcdc-avro", "databus-binary"])
def test_files_of_a_binary_envelope_are_no_lines_even_if_nothing_was_tried(target):
    """The sample may hold nothing that the target writes."""
    assert TargetTrial(registry.get(target), {}).layout == "parquet"
    assert TargetTrial(registry.get("canal"), {}).layout == "lines"
