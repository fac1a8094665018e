"""Reads a migration from its file and says everything that is wrong with it at once.

The file is YAML or JSON. Values may hold `${NAME}` or `${NAME:-default}`, taken from the
environment, so that secrets and places stay out of the file (`$${` is a plain `${`); names of
fields may not. Relative paths are meant from the folder of the file. A value that came from the
environment is never repeated in an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from waybill.envelopes import registry
from waybill.errors import Code, ConfigurationError
from waybill.spec.migration import Migration, Table, table_rules
from waybill.spec.yaml_lines import Location, Marked, MarkedError, read_marked
from waybill.suggestions import did_you_mean, fields_at

if TYPE_CHECKING:
    from waybill.tables import TableRules

Model = TypeVar("Model", bound=BaseModel)
_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
SUITES = ("changes", "tables", "trends")
"""Suites that come with the product; anything else under `quality.suites` is a file."""


class Problem(NamedTuple):
    """One thing that is wrong, and where."""

    location: Location
    sentence: str


class SpecificationError(ConfigurationError):
    """A migration file that cannot be used; `problems` holds one sentence each.

    Every sentence starts with file and line and names the field.
    """

    code = Code.SPECIFICATION

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems
        self.sentence = "\n".join(problems)


def load_migration(path: str | os.PathLike[str]) -> Migration:
    """The migration that a file describes, with variables filled in and paths made absolute.

    Raises:
        SpecificationError: the file cannot be read, or anything in it is wrong; all problems at
            once, in the order of the file.
    """
    file = Path(path)
    text = _text_of(file)
    marked = _marked(file, text)
    problems: list[Problem] = []
    data = _expand(marked.data, (), problems, marked)
    if not isinstance(data, dict):
        raise SpecificationError(_sentences(file, marked, [Problem((), _NOT_A_MAPPING)]))
    folder = file.resolve().parent
    problems += _make_absolute(data, folder)
    lake = data.setdefault("lake", {})
    # Beside a catalog that is somewhere else nobody means a folder of this machine.
    if isinstance(lake, dict) and "catalog" not in lake:
        lake.setdefault("warehouse", default_warehouse(folder))
    migration, wrong = _validate(Migration, data, (), marked)
    problems += [_as_written(problem, data, marked) for problem in wrong]
    problems += _envelope_problems(data, marked)
    problems += _suite_problems(data, marked)
    if problems or migration is None:
        raise SpecificationError(_sentences(file, marked, problems))
    return migration.read_from(file, text)


def load_tables(path: str | os.PathLike[str]) -> TableRules:
    """Table declarations from a file of their own, as `tables:` of a migration holds them.

    Raises:
        SpecificationError: the file cannot be read, or anything in it is wrong.
    """

    class Tables(BaseModel, extra="forbid"):
        tables: dict[str, Table]

    file = Path(path)
    marked = _marked(file, _text_of(file, "a YAML file of tables"))
    problems: list[Problem] = []
    data = _expand(marked.data, (), problems, marked)
    wrapped = data if isinstance(data, dict) and set(data) == {"tables"} else {"tables": data}
    prefix = 0 if wrapped is data else 1
    tables, wrong = _validate(Tables, wrapped, (), marked)
    problems += [Problem(location[prefix:], sentence) for location, sentence in wrong]
    if problems or tables is None:
        raise SpecificationError(_sentences(file, marked, problems))
    return table_rules(tables.tables)


def default_warehouse(folder: Path) -> str:
    """The lake of a migration that names none: `$WAYBILL_LAKE`, else `.waybill/lake` beside."""
    named = os.environ.get("WAYBILL_LAKE")
    if named:
        return named if _SCHEME.match(named) else str(Path(named).absolute())
    return str(folder.parent / ".waybill" / "lake")


_NOT_A_MAPPING = "is not a mapping of fields; a migration starts with name:, source: and publish:"


def _text_of(file: Path, what: str = "a migration's YAML file") -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"{file}: cannot be read ({error.strerror}); name {what}"
        raise SpecificationError([message]) from error
    except UnicodeDecodeError as error:
        raise SpecificationError([f"{file}: is not UTF-8 text; save it as UTF-8"]) from error


def _marked(file: Path, text: str) -> Marked:
    try:
        return read_marked(text, json=file.suffix == ".json")
    except MarkedError as error:
        raise SpecificationError([f"{file}:{error.line}: {error.sentence}"]) from error


def _expand(value: Any, at: Location, problems: list[Problem], marked: Marked) -> Any:
    """The value with variables filled in; what came from the environment is marked as secret."""
    if isinstance(value, dict):
        problems += [Problem((*at, key), _IN_A_NAME) for key in value if _names_variable(key)]
        return {key: _expand(item, (*at, key), problems, marked) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, (*at, i), problems, marked) for i, item in enumerate(value)]
    if not isinstance(value, str) or "$" not in value:
        return value

    def fill(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match[0][1:]
        found = os.environ.get(name) or default
        if found is None:
            sentence = f"needs ${{{name}}}, which is not set; set it or write ${{{name}:-default}}"
            problems.append(Problem(at, sentence))
            return ""
        marked.secret.add(at)
        return found

    return _VARIABLE.sub(fill, value)


_IN_A_NAME = "needs the name itself: ${…} is filled in in values only"


def _names_variable(key: str) -> bool:
    return any(not match[1] for match in _VARIABLE.finditer(key))


def _make_absolute(data: dict[str, Any], folder: Path) -> Iterator[Problem]:
    """Make every path absolute; gives a problem for each that cannot be."""
    for holder, at in _path_fields(data):
        path = holder[at[-1]]
        if not isinstance(path, str):
            continue
        try:
            holder[at[-1]] = _absolute(path, folder)
        except RuntimeError:
            yield Problem(at, "needs a path in full: nobody here has the home that ~ names")


def _absolute(path: str, folder: Path) -> str:
    """A path as it is meant from `folder`; a URL stays as it is."""
    if not path or _SCHEME.match(path):
        return path
    return os.path.normpath(folder / Path(path).expanduser())


def _path_fields(data: dict[str, Any]) -> Iterator[tuple[Any, Location]]:
    """Every place of a path in a specification, with the container that holds it."""
    targets, dumps = data.get("publish"), _mapping(data.get("full"))
    places: list[Location] = [
        ("source", "files", "path"),
        ("source", "schemas", "file"),
        ("lake", "warehouse"),
        *(("full", name, "path") for name in dumps),
        *(
            ("publish", i, "files", "path")
            for i in range(len(targets) if isinstance(targets, list) else 0)
        ),
    ]
    for place in places:
        holder = _mapping(_value_at(data, place[:-1]))
        if place[-1] in holder:
            yield holder, place
    suites = _mapping(data.get("quality")).get("suites")
    for i, suite in enumerate(suites if isinstance(suites, list) else []):
        if isinstance(suite, str) and suite not in SUITES and _is_path(suite):
            yield suites, ("quality", "suites", i)


def _value_at(data: Any, at: Location) -> Any:
    """What stands at a place, None where there is no such place."""
    for part in at:
        if isinstance(data, list):
            data = dict(enumerate(data))
        data = _mapping(data).get(part)
    return data


def _is_path(suite: str) -> bool:
    return "/" in suite or suite.endswith(".json")


def _mapping(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


_KINDS = {
    "list_type": "should be a list, such as [a, b]",
    "string_type": "should be a text: put it into quotes",
}
"""What pydantic's own sentences do not tell a person, by the kind of the error."""


def _validate(
    model: type[Model], data: Any, at: Location, marked: Marked
) -> tuple[Model | None, list[Problem]]:
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        problems = []
        for item in error.errors(include_url=False, include_context=False):
            problems.append(_problem(model, item, at, marked))
        return None, problems


def _problem(model: type[BaseModel], error: Any, at: Location, marked: Marked) -> Problem:
    inner: Location = tuple(part for part in error["loc"] if part != "[key]")
    location = (*at, *inner)
    kind, message = error["type"], error["msg"]
    if kind == "extra_forbidden":
        known = fields_at(model, inner[:-1])
        return Problem(location, f"is not a known field{did_you_mean(str(inner[-1]), known)}")
    if kind == "missing":
        return Problem(location, "is missing")
    if location in marked.secret:
        # The message of a failed check may repeat the value.
        return Problem(location, _WITHHELD)
    if kind in _KINDS:
        return Problem(location, _KINDS[kind])
    sentence = message.removeprefix("Value error, ")
    return Problem(location, sentence.replace("Input should be", "should be"))


_WITHHELD = "does not hold a value that is allowed here (from a variable)"
"""The sentence where the value may not be repeated."""


def _as_written(problem: Problem, data: dict[str, Any], marked: Marked) -> Problem:
    """A problem of several fields that tells the variables of the file and not their values."""
    sentence = problem.sentence
    for place in marked.secret:
        filled = str(_value_at(data, place) or "")
        if filled and place[: len(problem.location)] == problem.location:
            written = str(_value_at(marked.data, place)).replace("\\", "\\\\")
            sentence = re.sub(rf"(?<!\w){re.escape(filled)}(?!\w)", written, sentence)
    return problem._replace(sentence=sentence)


def _envelope_problems(data: dict[str, Any], marked: Marked) -> Iterator[Problem]:
    """What is wrong with envelope names and their settings."""
    source = _mapping(data.get("source"))
    yield from _one_envelope(source, ("source",), "decode", marked)
    targets = data.get("publish")
    for i, target in enumerate(targets if isinstance(targets, list) else []):
        yield from _one_envelope(_mapping(target), ("publish", i), "encode", marked)
        yield from _layout_problems(_mapping(target), ("publish", i), marked)


def _layout_problems(target: dict[str, Any], at: Location, marked: Marked) -> Iterator[Problem]:
    """What is wrong with a target whose messages are binary and whose files hold lines."""
    files, name = target.get("files"), target.get("envelope")
    if not isinstance(files, dict) or files.get("layout", "lines") != "lines":
        return
    if not isinstance(name, str) or not _usable(name, "encode"):
        return
    if registry.get(name).is_binary:
        whose = "this envelope" if (*at, "envelope") in marked.secret else name
        sentence = (
            f"needs layout: parquet, because messages of {whose} are binary and may hold line "
            "feeds, which no line of a file can; or publish them to a topic (kafka:)"
        )
        yield Problem((*at, "files", *(["layout"] if "layout" in files else [])), sentence)


def _one_envelope(
    holder: dict[str, Any], at: Location, way: str, marked: Marked
) -> Iterator[Problem]:
    name = holder.get("envelope")
    if not isinstance(name, str):
        return
    if (*at, "envelope") in marked.secret and not _usable(name, way):
        yield Problem((*at, "envelope"), _WITHHELD)
        return
    if name not in registry.names():
        known = registry.names()
        sentence = f"{name!r} is not a known envelope{did_you_mean(name, known)}"
        yield Problem((*at, "envelope"), sentence)
        return
    if not _usable(name, way):
        verb = "read" if way == "decode" else "written"
        yield Problem((*at, "envelope"), f"{name!r} cannot be {verb}; see `waybill envelopes`")
        return
    envelope = registry.get(name)
    model = envelope.decode_settings if way == "decode" else envelope.encode_settings
    _, problems = _validate(model, holder.get("settings") or {}, (*at, "settings"), marked)
    yield from problems


def _usable(name: str, way: str) -> bool:
    """Whether there is an envelope of that name that can be read (`decode`) or written."""
    if name not in registry.names():
        return False
    envelope = registry.get(name)
    return (envelope.decoder if way == "decode" else envelope.encoder) is not None


def _suite_problems(data: dict[str, Any], marked: Marked) -> Iterator[Problem]:
    suites = _mapping(data.get("quality")).get("suites")
    for i, suite in enumerate(suites if isinstance(suites, list) else []):
        if not isinstance(suite, str) or suite in SUITES:
            continue
        at: Location = ("quality", "suites", i)
        if not _is_path(suite):
            hint = did_you_mean(suite, SUITES)
            sentence = f"{suite!r} is neither a known suite nor a .json file{hint}"
        elif not _SCHEME.match(suite) and not Path(suite).is_file():
            sentence = f"there is no file {suite}"
        else:
            continue
        yield Problem(at, _WITHHELD if at in marked.secret else sentence)


def _sentences(file: Path, marked: Marked, problems: list[Problem]) -> list[str]:
    placed = sorted(
        {(marked.line(location), location, sentence) for location, sentence in problems},
        key=_by_line,
    )
    return [
        f"{file}:{line}: {field_name(location)}{' ' if location else ''}{_joined(location, text)}"
        for line, location, text in placed
    ]


def _by_line(item: tuple[int, Location, str]) -> tuple[int, str, str]:
    return item[0], field_name(item[1]), item[2]


def _joined(location: Location, sentence: str) -> str:
    starts_as_clause = re.match(r"(is|needs|should|does|cannot)\b", sentence)
    return sentence if starts_as_clause or not location else f"- {sentence}"


def field_name(location: Location) -> str:
    """A place in a specification as people write it, e.g. `publish[0].files.path`."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            quoted = f'"{part}"' if "." in part or "*" in part else part
            text += f".{quoted}" if text else quoted
    return text
