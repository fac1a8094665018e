"""Files of lines that are converted many lines at once become what they become line by line."""

from __future__ import annotations

import random

import pytest

from tests.contract.test_bulk import settings_for, stream
from waybill.batches.bulk_threshold import SWITCH
from waybill.inprocess.job import ConvertJob
from waybill.inprocess.run import convert_file

SIZE = 12_000
"""Changes, more than one block of lines."""


def converted(monkeypatch, folder, source, target, lines, rules, switch, processes):
    monkeypatch.setenv(SWITCH, switch)
    name = f"{switch}-{processes}"
    path = folder / "in.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    settings = settings_for(source).model_dump(exclude_defaults=True)
    job = ConvertJob(
        source,
        target,
        str(path),
        str(folder / f"{name}.jsonl"),
        decode_settings=settings,
        rules=rules,
    )
    account, _ = convert_file(job, str(folder / f"{name}.refused.jsonl"), processes)
    made = (folder / f"{name}.jsonl").read_bytes()
    return made, (folder / f"{name}.refused.jsonl").read_bytes(), account


@pytest.mark.parametrize(
    ("source", "target", "processes"),
    [
        # Halves of updates, in two blocks too, and tombstones.
        ("datahub-blob", "debezium-json", 2),
        # A decoder that remembers.
        ("debezium-json", "oms-default", 1),
    ],
)
def test_a_file_becomes_the_same(monkeypatch, tmp_path, source, target, processes):
    dice = random.Random(5)
    lines, rules = stream(source, dice, SIZE // 4)
    lines *= 4
    # Some lines are refused, one is blank, and one half of an update is doubled.
    lines[7:7] = [b"{", b"", lines[6]]
    assert sum(map(len, lines)) > 1 << 22
    work = (monkeypatch, tmp_path, source, target, lines, rules)
    expected = converted(*work, "off", 1)
    assert expected[2].written > SIZE // 2
    assert converted(*work, "on", processes) == expected
