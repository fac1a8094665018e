"""What the merge reads in a mapped statement is what it reads in the source's, mapped."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from waybill.errors import ConfigurationError
from waybill.mapping.changes import ChangeMapper
from waybill.mapping.rules import MappingRule, Mask, Rules
from waybill.mapping.sql import EXACT, UnreadableStatement
from waybill.merge.ddl import emptied_tables, read_alteration
from waybill.records import Change, Message, intern_schema

QUOTES = {"mysql": '`"', "postgresql": '"', "oracle": '"', "tsql": '"[', "": '`"'}
WORDS = ("fee", "FEE", "Fee", "order", "select", "a b", "x-y", "größe", "1st", "a.b", "it's")
NASTY = (*WORDS, 'q"q', "b`b", "c]c", "-- x", "/*x*/", "😀", "add", "column", "to", ";", "a,b", "(")
PLAIN = ("fee", "FEE", "Fee", "note", "total")
SECRET = "alice@x.org"
HIDDEN = "email"


SPACES = {name: ("shop" if name == "mysql" else "dbo", sign[0]) for name, sign in QUOTES.items()}
SPACES[""] = ("dbo", "")


def quoted(name: str, sign: str) -> str:
    if not sign:
        return name
    end = "]" if sign == "[" else sign
    return f"{sign}{name.replace(end, end * 2)}{end}"


@st.composite
def names(draw: st.DrawFn, dialect: str) -> tuple[str, str]:
    """A name as rows spell it, and as a statement does."""
    sign = draw(st.sampled_from(["", *QUOTES[dialect]]))
    name = draw(st.sampled_from(NASTY if sign else PLAIN))
    exact = name if sign else EXACT.get(dialect, str)(name)
    return exact, quoted(name, sign)


ACTIONS = (
    "ADD COLUMN {} INT DEFAULT 5",
    "ADD {} VARCHAR(9) DEFAULT 'x'",
    "DROP COLUMN {}",
    "ADD COLUMN {} INT NOT NULL DEFAULT 7",
)
OF_HIDDEN = (
    "ADD COLUMN {} VARCHAR(99) DEFAULT '{}'",
    "ALTER COLUMN {} SET DEFAULT '{}'",
    "ADD CONSTRAINT c CHECK ({} <> '{}')",
    "MODIFY COLUMN {} VARCHAR(99) DEFAULT '{}'",
    "MODIFY {} VARCHAR2(99) DEFAULT '{}'",
    "CHANGE {0} {0} VARCHAR(99) DEFAULT '{1}'",
    "ADD COLUMN d VARCHAR(99) GENERATED ALWAYS AS (CONCAT({}, '{}')) STORED",
)


def told(rules: Rules, text: str, dialect: str, table: str | None) -> str | None:
    space = None if dialect == "mysql" else "dbo"
    schema = intern_schema("shop", space, table, (), None, dialect)
    message = Message("t", 0, 0, None, None, None)
    found = ChangeMapper(rules).map(Change("ddl", schema, message, ddl_text=text))
    return None if found.change is None else found.change.ddl_text


@given(data=st.data(), dialect=st.sampled_from(sorted(QUOTES)))
def test_columns_and_tables_with_new_names(data: Any, dialect: str) -> None:
    table, spelled_table = data.draw(names(dialect))
    column, spelled = data.draw(names(dialect))
    new_table, new = data.draw(st.tuples(st.sampled_from(NASTY), st.sampled_from(NASTY)))
    text = f"ALTER TABLE {spelled_table} {data.draw(st.sampled_from(ACTIONS)).format(spelled)}"
    pattern = "shop.*" if dialect == "mysql" else "shop.dbo.*"
    rename = {column: new}
    rules = Rules(of_tables=(MappingRule((pattern,), {"table": new_table}, rename=rename),))
    before = _read(text, dialect)
    made = told(rules, text, dialect, table)
    if before is None:
        assert made is None
        return
    assert made is not None
    after = _read(made, dialect)
    assert after is not None
    same = dict.fromkeys((column, *before.added, *before.dropped), new)
    assert after == before._replace(
        table=(new_table,),
        added=tuple(same[name] for name in before.added),
        defaults={same[name]: value for name, value in before.defaults.items()},
        dropped=tuple(same[name] for name in before.dropped),
    )


@given(data=st.data(), dialect=st.sampled_from(sorted(QUOTES)))
def test_tables_that_lose_their_rows(data: Any, dialect: str) -> None:
    """One of them has the same name in another schema, and keeps it."""
    table, spelled = data.draw(names(dialect))
    also, other = data.draw(
        names(dialect).filter(lambda two: two[0].casefold() != table.casefold())
    )
    new = data.draw(st.sampled_from(NASTY).filter(lambda name: name.casefold() != also.casefold()))
    space = quoted(*SPACES[dialect])
    several = f", elsewhere.{spelled}, {space}.{other}"
    lists = [f"DROP TABLE {space}.{spelled}{several}", f"TRUNCATE TABLE {space}.{spelled}"]
    text = data.draw(st.sampled_from(lists))
    before = _emptied(text, dialect)
    if before is None:
        return
    name = ".".join(("shop", table) if dialect == "mysql" else ("shop", "dbo", table))
    rules = Rules(of_tables=(MappingRule((name,), {"table": new}),))
    for named in (table, None):
        made = told(rules, text, dialect, named)
        # A table that gets the name that it has stays as it is spelled.
        mine = None if new == table else (SPACES[dialect][0], table.casefold())
        assert made is not None
        assert _emptied(made, dialect) == tuple(
            (*parts[:-1], new) if (parts[0], parts[1].casefold()) == mine else parts
            for parts in before
        )


@given(data=st.data(), dialect=st.sampled_from(sorted(QUOTES)))
def test_no_value_of_a_hidden_column_shows(data: Any, dialect: str) -> None:
    sign = data.draw(st.sampled_from(["", *QUOTES[dialect]]))
    hidden = data.draw(st.sampled_from([HIDDEN, HIDDEN.upper()]))
    actions = [
        data.draw(st.sampled_from(OF_HIDDEN)).format(quoted(hidden, sign), SECRET),
        *(
            data.draw(st.sampled_from(ACTIONS)).format(data.draw(names(dialect))[1])
            for _ in range(data.draw(st.integers(0, 2)))
        ),
    ]
    comment = data.draw(st.sampled_from(["", f" /* {SECRET} */", f" -- {SECRET}\n"]))
    joined = f",{comment} ".join(data.draw(st.permutations(actions)))
    space = quoted(*SPACES[dialect])
    table = quoted("people", data.draw(st.sampled_from(["", *QUOTES[dialect]])))
    text = f"ALTER TABLE {space}.{table} {joined}{comment}"
    pattern = "shop.*" if dialect == "mysql" else "shop.dbo.*"
    ways = ({"masks": {HIDDEN: Mask("sha256")}}, {"drop": (HIDDEN,)}, {"keep": ("id", "fee")})
    way = data.draw(st.sampled_from(ways))
    rules = Rules(of_tables=(MappingRule((pattern,), **way),))
    for named in ("people", "other", None):
        try:
            shown = told(rules, text, dialect, named)
        except ConfigurationError:
            # CHANGE to the same name, where nobody knows whether the case of letters counts.
            shown = None
        assert shown is None or SECRET not in shown


def _read(text: str, dialect: str) -> Any:
    try:
        return read_alteration(text, dialect)
    except UnreadableStatement:
        return None


def _emptied(text: str, dialect: str) -> Any:
    try:
        return emptied_tables(text, dialect)
    except UnreadableStatement:
        return None
