"""The commands that docs/performance.md names measure what it says that they measure."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bench import __main__ as bench
from bench import verifying
from bench.topics import Topic

PROJECT = Path(__file__).resolve().parents[3]
PAGE = (PROJECT / "docs" / "performance.md").read_text(encoding="utf-8")
SPACED = " ".join(PAGE.split())
COMMAND = re.compile(r"`python\s-m\s(bench[.\w]*)\s([^`]+)`")
COMMANDS = sorted({(name, " ".join(text.split())) for name, text in COMMAND.findall(PAGE)})


def test_goals_are_measured_with_the_topics_that_they_name(monkeypatch, tmp_path):
    written, measured = [], []

    def write_topics(folder, messages, keys, writers):
        written.append((messages, keys, list(writers)))
        path = folder / f"{messages}-{keys}"
        return {name: Topic(name, path, path, messages, messages) for name in writers}

    def reached(topic, twice, *_):
        measured.append((topic.messages, twice.messages))
        return ""

    monkeypatch.setattr(bench, "write_topics", write_topics)
    monkeypatch.setattr(bench, "reached", reached)
    result = CliRunner().invoke(bench.app, ["--only", "goals", "--folder", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert written == [(1_000_000, 50_000, ["canal"]), (2_000_000, 200_000, ["canal"])]
    assert measured == [(1_000_000, 2_000_000)]
    assert "with a million messages and 50,000 keys by default" in SPACED


@pytest.mark.parametrize("text", [text for name, text in COMMANDS if name == "bench"])
def test_named_parts_and_options_are_there(text):
    words = shlex.split(text)
    if words == ["--help"]:
        return
    context = typer.main.get_command(bench.app).make_context("bench", words)
    only = bench.chosen("only", "part", context.params["only"], {*bench.PARTS, *bench.AT_REQUEST})
    assert only
    bench.chosen("goal", "goal", context.params["goal"], bench.GOALS)


def test_every_part_is_named():
    named = {part for part in (*bench.PARTS, *bench.AT_REQUEST) if f"--only {part}" in SPACED}
    # The rates of stages over the lake are for whoever works on them; the page has `line`.
    assert {*bench.PARTS, *bench.AT_REQUEST} - named <= {"lake"}


def test_the_rate_of_full_is_one_of_the_limits():
    (given,) = (shlex.split(text)[0] for name, text in COMMANDS if name == "bench.verifying")
    settings = json.loads(given)
    assert settings["server"] in verifying.SERVERS
    assert [f"{limit:,} rows a second" in PAGE for limit in settings["limits"]] == [True]
