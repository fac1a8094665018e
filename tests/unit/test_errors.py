"""Errors that stop a stage have a code, and every code has a section in the runbook."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

from tests import structure
from tests.contract.reference import anchor, heading
from waybill import errors
from waybill.errors import Code, ConfigurationError, DriverError, GateError, Refusal, SourceError
from waybill.jobs import described
from waybill.spark_tasks.errors import unwrapped
from waybill.spec.file import SpecificationError

PROJECT = Path(__file__).resolve().parents[2]
LIBRARY = PROJECT / "spark_jobs" / "waybill"
RUNBOOK = (PROJECT / "docs" / "runbook.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^### (WB-.*)\n((?:(?!#).*\n)*)", re.MULTILINE)
WITHOUT_STAGE = ("cli", "inprocess")
"""Rooms of what commands do beside stages."""

NEED_ONE = {
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type)
    and issubclass(kind, errors.WaybillError)
    and kind.code is None
    and not issubclass(kind, Refusal)
}
"""The errors whose class says too little."""


def without_code(tree: ast.Module) -> list[int]:
    """The lines where an error is made that has no code."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name | ast.Attribute)
        and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in NEED_ONE
        and "code" not in {keyword.arg for keyword in node.keywords}
    ]


def test_what_is_made_without_a_code_is_found():
    assert "SourceError" in NEED_ONE
    assert "ReconciliationError" not in NEED_ONE
    source = "raise SourceError(message)\nraise SourceError(message, code=Code.X)"
    assert without_code(ast.parse(source)) == [1]


def test_every_error_that_can_stop_a_stage_has_a_code():
    found = [
        f"{module.path}:{line}"
        for module in structure.modules(PROJECT)
        if module.inside("waybill")
        and not module.inside(*(f"waybill.{room}" for room in WITHOUT_STAGE))
        and any(name in module.text for name in NEED_ONE)
        for line in without_code(module.tree)
    ]
    assert found == []


def test_every_code_is_used():
    files = [*LIBRARY.rglob("*.py"), *(PROJECT / "plugins").rglob("*.py")]
    used = {
        name
        for file in files
        for name in re.findall(r"\bcode ?= ?Code\.(\w+)", file.read_text(encoding="utf-8"))
    }
    assert used == {code.name for code in Code}


def test_codes_have_their_form_and_order():
    labels = [code.label for code in Code]
    assert all(re.fullmatch(r"WB-[1-9]\d{3}", label) for label in labels)
    assert labels == sorted(set(labels))


def test_the_runbook_has_a_section_for_each_code_and_no_other():
    sections = SECTION.findall(RUNBOOK)
    assert [title for title, _ in sections] == [heading(code) for code in Code]
    for title, text in sections:
        assert "\n- **Look at:** " in f"\n{text}", title
        assert "\n- **Do:** " in f"\n{text}", title


def test_a_link_goes_where_the_heading_is():
    assert anchor("WB-1101: No such envelope, or not") == "wb-1101-no-such-envelope-or-not"


@pytest.mark.parametrize(
    "error",
    [
        SourceError("a.jsonl is gone: put it back", code=Code.SOURCE_MISSING),
        DriverError("the driver is gone", True, code=Code.DRIVER_UNREACHABLE),
        GateError("no", {"stage": "validate"}, code=Code.GATE_REFUSED),
        SpecificationError(["a.yaml:1: no", "a.yaml:2: no"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_code_stands_before_the_sentence_and_is_pickled(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.code) == (type(error), str(error), error.code)
    assert str(error) == f"{error.code.label}: {error.sentence}"
    assert (again.sentence, vars(again)) == (error.sentence, vars(error))


def test_an_error_without_code_is_its_sentence_and_a_refusal_its_kind_too():
    assert str(ConfigurationError("write --only ok")) == "write --only ok"
    assert str(Refusal("json", "the message is not JSON", 1)) == "json: the message is not JSON"


def test_results_have_the_code_beside_the_sentence():
    data = described(SourceError("a.jsonl is gone", code=Code.SOURCE_MISSING))
    assert (data["code"], data["message"]) == ("WB-2001", "a.jsonl is gone")
    assert described(KeyError("x"))["code"] is None


def test_the_code_of_an_error_in_a_task_of_spark_is_kept():
    account = (
        "Job aborted: Traceback (most recent call last):\n"
        '  File "x.py", line 1\n'
        "waybill.errors.SourceError: WB-2003: a.jsonl was written to: run again\n\n\tat java"
    )
    with pytest.raises(SourceError) as raised, unwrapped():
        raise RuntimeError(account)
    assert raised.value.code is Code.SOURCE_GROWING
    assert raised.value.sentence == "a.jsonl was written to: run again"


def test_a_key_is_for_the_log_and_not_for_what_everybody_reads():
    """Results become mails, pages and rows of `runs`; the log and the terminal print the error."""
    error = ConfigurationError("2 keys are", code=Code.MAPPING, logged="the key 7 is")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert str(one) == "WB-1106: the key 7 is"
        assert described(one)["message"] == "2 keys are"


def test_the_key_of_a_row_that_lost_a_value_is_for_the_log_alone():
    """Also where a task of Spark has raised it, and only a text of it crosses to the driver."""
    key = '{"id":"1 of lake.x has no value\\n"}'
    text = f"the row {key} of lake.shop.t has no value in its column at, of which"
    lost = errors.value_lost(text)
    with pytest.raises(errors.LakeError) as caught, unwrapped():
        raise RuntimeError(f"Traceback\nwaybill.errors.LakeError: {lost}\n\nJVM stacktrace:")
    for one in (lost, caught.value):
        assert str(one) == f"WB-7005: {text}"
        said = described(one)
        assert said["message"] == "a row of lake.shop.t has no value in its column at, of which"
        assert said["code"] == "WB-7005"
