"""Functions that make rows of rows, compiled from what becomes of each column.

They run once for every row, so nothing is called in them that can stand in the function itself. A
value that is the same before and after a change is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from waybill.values.generated import function


class Step(NamedTuple):
    """What becomes of the value of a column.

    Attributes:
        lines: statements that turn the variable `{v}` into it, in which `{c}` is `call` and `{t}`
            is `test`; none leave the value as it is.
        call: what they call.
        test: what else they use: a test, or what is known of few values.
    """

    lines: tuple[str, ...] = ()
    call: Callable[[Any], Any] | None = None
    test: Any = None


AS_IT_IS = Step()


def one_row(
    steps: Sequence[Step], made: Callable[..., Any], names: Mapping[str, Any] | None = None
) -> Callable[[Any], Any]:
    """A function from a row to another one.

    Args:
        steps: what becomes of each column.
        made: makes the other row of its values in order.
        names: what else the statements ask for.
    """
    lines = []
    for i, step in enumerate(steps):
        lines += [f"a{i} = row.f{i}", *_of(step, "a", i)]
    return function(
        "one(row)", [*lines, f"return made({_all('a', steps)})"], _scope(steps, made, names)
    )


def two_rows(
    steps: Sequence[Step], made: Callable[..., Any], names: Mapping[str, Any] | None = None
) -> Callable[[Any, Any], tuple[Any, Any]]:
    """A function from the rows before and after a change to both others; see `one_row`."""
    lines = []
    for i, step in enumerate(steps):
        lines += [f"a{i} = after.f{i}", f"b{i} = before.f{i}"]
        if step.lines:
            new, old = _of(step, "a", i), _of(step, "b", i)
            lines += [f"if a{i} == b{i}:", *_indented(new), f"    b{i} = a{i}", "else:"]
            lines += _indented([*new, *old])
    both = f"return made({_all('b', steps)}), made({_all('a', steps)})"
    return function("two(before, after)", [*lines, both], _scope(steps, made, names))


def picked(made: Callable[..., Any], names: Iterable[str], *given: str) -> Callable[..., Any]:
    """A function that makes a struct of fields of a record.

    Args:
        made: makes it of their values in order.
        names: the fields of the record.
        given: what the function is called with besides the record, which `made` takes last.
    """
    values = [*(f"record.{name}" for name in names), *given]
    head = f"picked({', '.join(('record', *given))})"
    return function(head, [f"return made({', '.join(values)})"], {"made": made})


def statements(steps: Mapping[int, Step], letter: str) -> tuple[list[str], dict[str, Any]]:
    """Statements of a larger function that makes a row, and what they call.

    Args:
        steps: what becomes of columns, by their numbers.
        letter: the variable of a column has this letter before the column's number.
    """
    lines = [line for i, step in steps.items() for line in _of(step, letter, i)]
    return lines, _called(steps)


def _of(step: Step, letter: str, i: int) -> list[str]:
    return [line.format(v=f"{letter}{i}", c=f"c{i}", t=f"t{i}") for line in step.lines]


def _all(letter: str, steps: Sequence[Step]) -> str:
    return ", ".join(f"{letter}{i}" for i in range(len(steps)))


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _scope(
    steps: Sequence[Step], made: Callable[..., Any], names: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {"made": made, **(names or {}), **_called(dict(enumerate(steps)))}


def _called(steps: Mapping[int, Step]) -> dict[str, Any]:
    calls = {f"c{i}": step.call for i, step in steps.items() if step.call is not None}
    tests = {f"t{i}": step.test for i, step in steps.items() if step.test is not None}
    return {**calls, **tests}
