"""What the pages name is there: targets of make, commands and their options, variables."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from tests.contract.reference import anchor
from waybill.cli.app import app

PROJECT = Path(__file__).resolve().parents[3]
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted(PROJECT.glob("docs/**/*.md"))]
SPANS = re.compile(r"```\w*\n(.*?)```|`([^`]+)`", re.DOTALL)
ANCHORED = re.compile(r"\]\(([^)#\s:]*)#([^)\s]+)\)")
LINKED = re.compile(r"\]\(([^)#\s:]+)[)#]")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CODE = ("spark_jobs", "plugins", "stack", "scripts", "bench", "tests", "migrations")


def code_of(page: Path) -> list[str]:
    """Lines of code blocks, and what stands between back ticks."""
    found = SPANS.findall(page.read_text(encoding="utf-8"))
    return [line.strip() for pair in found for line in "".join(pair).splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_make_are_there(page):
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    named = {
        match[1]
        for line in code_of(page)
        if (match := re.match(r"(?:[A-Z_]+=\S+ )*make ([a-z0-9-]+)", line))
    }
    assert named <= targets


@pytest.fixture(scope="module")
def command_line():
    return typer.main.get_command(app)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_are_there(page, command_line):
    for line in code_of(page):
        match = re.match(r"(?:\S+=\S+ )*waybill ([a-z][\w -]*.*)", line)
        if match is None:
            continue
        text = re.split(r"\s{3,}|\s#\s", match[1])[0].replace("…", "x")
        words = [word for word in shlex.split(text) if word not in "[]|"]
        context = command_line.make_context("waybill", words, resilient_parsing=True)
        command = context.command
        while words and hasattr(command, "get_command"):
            found = command.get_command(context, words[0])
            assert found is not None, line
            command, words = found, words[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        for word in words:
            if word.startswith("--"):
                assert word.partition("=")[0] in known, line


def test_variables_are_read_somewhere():
    named = {
        name
        for page in PAGES
        for line in code_of(page)
        for name in re.findall(r"\bWAYBILL_[A-Z_]+\b", line)
    }
    files = [file for folder in CODE for file in (PROJECT / folder).rglob("*") if file.is_file()]
    files += [PROJECT / name for name in ("Makefile", "docker-compose.yaml")]
    kinds = {"", ".py", ".sh", ".yaml"}
    code = "\n".join(file.read_text(encoding="utf-8") for file in files if file.suffix in kinds)
    assert named
    assert {name for name in named if name not in code} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_files_are_there(page):
    for target in LINKED.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_modules_are_there(page):
    code = PROJECT / "spark_jobs"
    places = (PROJECT, code, code / "waybill", code / "waybill" / "envelopes")
    for name in re.findall(r"`(\w[\w/]*/\w+\.py)`", page.read_text(encoding="utf-8")):
        assert any((place / name).exists() for place in places), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_link_the_glossary(page):
    """The decisions are for those who know the terms; the list of pages names the glossary."""
    if page.parent.name != "adr" and page.name != "glossary.md":
        assert "glossary.md" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_lead_to_one(page):
    for target, name in ANCHORED.findall(page.read_text(encoding="utf-8")):
        there = (page.parent / target if target else page).read_text(encoding="utf-8")
        assert name in {anchor(title) for title in HEADING.findall(there)}, f"{target}#{name}"
