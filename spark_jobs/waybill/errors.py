"""Every public error, grouped by what helps: mend the input, run again, or look at the data.

Messages are one sentence that names what, where and what to do. Errors are picklable: they cross
the border between a Spark worker and its driver, so all their data are positional arguments.
"""

from __future__ import annotations

from typing import Any


class WaybillError(Exception):
    """The root: anything Waybill raises on purpose."""

    exit_code = 1
    transient = False


class ConfigurationError(WaybillError):
    """A wrong specification, option or environment; running again does not help."""

    exit_code = 2


class SourceError(WaybillError):
    """The source is not what the archive says it was (changed, shrunk, gone)."""


class UnreachableError(WaybillError):
    """A server could not be reached, or did not answer in time; it may later."""

    transient = True


class ConflictError(WaybillError):
    """Another run moved the table first; this one leaves nothing behind and may run again."""

    transient = True


class DriverError(WaybillError):
    """A driver did not take an order or broke off; the stage may be run again.

    Attributes:
        transient: whether asking again may help.
    """

    def __init__(self, message: str, transient: bool) -> None:
        super().__init__(message, transient)
        self.transient = transient

    def __str__(self) -> str:
        return str(self.args[0])


class UnavailableError(WaybillError):
    """A server cannot be reached, or failed every time it was asked; running again may help."""

    transient = True


class LakeError(WaybillError):
    """A file that the lake's own records name is gone; running again does not bring it back."""


class ReconciliationError(WaybillError):
    """Rows in and rows out of a stage do not add up; nothing was committed."""


class SchemaChangeError(WaybillError):
    """The stream changed a table in a way that a person has to decide about."""


class WaitingError(WaybillError):
    """Something that the merge waits for has not come for longer than the migration allows."""


class GateError(WaybillError):
    """The quality gate said no; nothing was published.

    Attributes:
        report: the account of the stage that judged (`StageReport.to_dict`), None where the error
            comes from another stage.
    """

    exit_code = 3

    def __init__(self, message: str, report: dict[str, Any] | None = None) -> None:
        super().__init__(message, report)
        self.report = report

    def __str__(self) -> str:
        return str(self.args[0])


class LossError(WaybillError):
    """The target envelope cannot carry what the source holds and `on_loss: fail` is set."""

    exit_code = 2


class Refusal(WaybillError):
    """One message, or one row of it, cannot be taken; it goes to quarantine with its bytes.

    Attributes:
        kind: short class of the reason, counted per batch (one of `REFUSAL_KINDS`).
        sentence: what is wrong, for a person, without the bytes.
        index: the row inside the message, or None when the whole message is refused.
    """

    def __init__(self, kind: str, sentence: str, index: int | None = None) -> None:
        super().__init__(kind, sentence, index)
        self.kind = kind
        self.sentence = sentence
        self.index = index

    def __str__(self) -> str:
        return f"{self.kind}: {self.sentence}"


REFUSAL_KINDS = {
    "json": "not one JSON value in UTF-8",
    "binary": "bytes of a binary message that are cut off, left over or have a wrong checksum",
    "shape": "a required field is missing or has the wrong type",
    "operation": "an operation that the envelope does not have",
    "value": "a value that its column's type does not allow",
    "key": "the key of the row cannot be told",
    "schema": "the columns' types cannot be told",
    "pair": "half of an update without its other half",
    "sequence": "a change without the sequence id that its format asks for, or with one too many",
    "column": "a value that does not fit the column of the merged table",
    "encoding": "a value that the target envelope cannot carry",
}
"""Every class of refusal and what it means."""
