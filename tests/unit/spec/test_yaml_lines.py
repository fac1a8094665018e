"""YAML that is small as text and would be large as data."""

from __future__ import annotations

import pytest

from waybill.spec.file import SpecificationError, load_migration
from waybill.spec.yaml_lines import MarkedError, read_marked


def nested(level: str, first: str, levels: int = 12) -> str:
    """Lines of which each repeats the one before ten times."""
    lines = [f"a0: &a0 {first}"]
    for i in range(1, levels):
        ten = ",".join([f"*a{i - 1}"] * 10)
        lines.append(f"a{i}: &a{i} " + level.replace("TEN", f"[{ten}]"))
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        nested("TEN", "[x, x, x, x, x]"),
        nested("{in: TEN}", "{x: 1}"),
        nested("{<<: TEN, more: 1}", "{x: 1}"),
    ],
    ids=["lists", "mappings", "merges"],
)
def test_aliases_of_aliases_are_refused_in_a_sentence(text, tmp_path) -> None:
    assert len(text) < 1000
    with pytest.raises(MarkedError, match=r"aliases \(\*\) repeat more than 100000 places"):
        read_marked(text)
    file = tmp_path / "laughs.yaml"
    file.write_text(text)
    with pytest.raises(SpecificationError, match=r"laughs\.yaml:\d+: aliases"):
        load_migration(file)


@pytest.mark.parametrize("text", ["a: &a {<<: *a}", "a: &a\n  <<: &b\n    <<: *a\n", "a: &a [*a]"])
def test_an_alias_of_itself_is_refused_in_a_sentence(text) -> None:
    with pytest.raises(MarkedError):
        read_marked(text)


def test_ordinary_aliases_are_read() -> None:
    columns = ", ".join(f"c{i}: text" for i in range(100))
    tables = "".join(f"t{i}: {{<<: *all, own: {i}}}\n" for i in range(300))
    data = read_marked(f"all: &all {{{columns}}}\n{tables}last: [*all, *all]\n").data
    assert data["t299"] == {**data["all"], "own": 299}
    assert data["last"] == [data["all"]] * 2
    assert len(data["all"]) == 100
