"""Every public error, grouped by what helps: fix the input, run again, or look at the data.

Messages are one sentence that names what, where and what to do. Errors are picklable: they cross
the border between a Spark worker and its driver, so all their data are positional arguments, or
attributes that pickle keeps.

An error that can stop a stage has a `Code`. It stands before the sentence wherever the error is
printed, and has a section of its own in the runbook (`docs/runbook.md`).
"""

from __future__ import annotations

import re
from enum import Enum, unique
from typing import Any

_CALL = re.compile(r"An error occurred while calling \S+$")


@unique
class Code(Enum):
    """Why a stage stopped, for people to look up and programs to compare. A code never changes.

    1xxx the migration and what surrounds it, 2xxx sources, 3xxx convert, 4xxx merge, 5xxx the
    gate, 6xxx publishing, 7xxx the lake and its storage, 8xxx servers and tasks, 9xxx defects.

    Attributes:
        label: the code as it is printed, such as `WB-2002`.
        title: what happened, as the heading of the runbook's section.
    """

    def __init__(self, label: str, title: str) -> None:
        self.label = label
        self.title = title

    SPECIFICATION = "WB-1001", "The migration file is not valid"
    OPTION = "WB-1002", "A run or a command asks for something that does not exist"
    ENVELOPE = "WB-1101", "No such envelope, or not in this direction"
    ENVELOPE_SETTING = "WB-1102", "A setting of an envelope is not valid"
    SCHEMA_FILE = "WB-1103", "A file of schemas cannot be used"
    LOSS = "WB-1104", "The target cannot carry everything"
    SUITE = "WB-1105", "A quality suite cannot be loaded"
    MAPPING = "WB-1106", "A mapping does not fit a table"
    CONNECTION_MISSING = "WB-1201", "A connection is missing"
    CONNECTION_INVALID = "WB-1202", "A connection is not valid"
    JAVA = "WB-1301", "Spark finds no usable Java"
    SPARK_SETUP = "WB-1302", "Spark lacks a jar"

    SOURCE_MISSING = "WB-2001", "The source does not exist"
    SOURCE_CHANGED = "WB-2002", "A file changed or disappeared after it was read"
    SOURCE_GROWING = "WB-2003", "A file was written to while it was read"
    SOURCE_UNREADABLE = "WB-2004", "A file cannot be read"
    SOURCE_LAYOUT = "WB-2005", "A file does not have its layout"
    SOURCE_KIND = "WB-2006", "The source moved between files and topics"
    DUMP_UNREADABLE = "WB-2101", "A dump cannot be read"
    DUMP_CHANGED = "WB-2102", "A dump changed after it was loaded"
    DUMP_LOADED_BEFORE = "WB-2103", "A second dump of a table has no as_of"
    DUMP_WITHOUT_SEQUENCE = "WB-2104", "The envelope has no sequence ids to compare a dump with"
    OFFSETS_LOST = "WB-2201", "The brokers deleted messages that were not read"
    TOPIC_RECREATED = "WB-2202", "A topic was deleted and recreated"
    TOPIC_UNKNOWN = "WB-2203", "A topic does not exist"
    OFFSET_INVALID = "WB-2204", "An offset is outside its partition"
    HEADER_UNREADABLE = "WB-2205", "The name of a header is not UTF-8"

    UPDATE_HALF_OVERDUE = "WB-3001", "Half of a split update waited too long"

    KEY_MISSING = "WB-4001", "Changes have no key"
    KEY_CHANGED = "WB-4002", "The key of a table changed"
    TABLE_NAMES = "WB-4003", "Two tables have one name"
    COLUMN_TYPE = "WB-4004", "The type of a column changed"
    COLUMN_RENAMED = "WB-4005", "A column was renamed"
    COLUMN_DEFAULT = "WB-4006", "The default of a column does not fit its type"
    COLUMN_DECISION = "WB-4007", "A change of columns waits for a decision"
    TRANSACTION_OVERDUE = "WB-4101", "A transaction was open too long"
    ORDER_AMBIGUOUS = "WB-4201", "The order of changes is ambiguous"
    ORDER_RULE_CHANGED = "WB-4202", "Stored changes were ordered by another rule"
    SNAPSHOT_EXPIRED = "WB-4301", "Upkeep has expired data that is needed"

    GATE_REFUSED = "WB-5001", "The batch does not pass the gate"
    BATCH_HELD = "WB-5002", "An earlier batch is held"
    BATCH_VISIBLE_IN_PART = "WB-5003", "An earlier batch is visible in part"
    TABLE_CHANGED = "WB-5004", "A merged table was changed by another program"
    STAGE_MISSING = "WB-5005", "An earlier stage of the batch has not run"
    KEY_TWICE = "WB-5006", "A merged table has a key twice"
    BATCH_DROPPED = "WB-5007", "A person dropped the batch"
    DECISION = "WB-5008", "A decision about a batch cannot be taken"
    TARGET_CHANGED = "WB-5009", "A target was changed while its messages wait for the gate"

    TARGET_REMOVED = "WB-6001", "Messages wait for a target that was removed"
    TARGET_TAKEN = "WB-6002", "Another target publishes to the folder"
    PUBLISHED_DIFFERENTLY = "WB-6003", "The batch was published before with other messages"
    PUBLISHED_CONCURRENTLY = "WB-6004", "Another run publishes to the target"
    TARGET_TOPIC = "WB-6005", "The target topic does not take the messages"
    PUBLISH_LEDGER = "WB-6006", "The publish ledger cannot be used"
    LEDGER_INCOMPLETE = "WB-6007", "The publish ledger has lost entries"
    SCHEMA_FILE_TAKEN = "WB-6008", "A published schema would replace another"
    LINE_FEED = "WB-6009", "A message cannot be a line of a file"

    DATABASE_TABLE = "WB-6101", "A table cannot be compared with its source"
    DATABASE_DIFFERS = "WB-6102", "The tables differ from their source database"
    PUBLISHED_CHANGED = "WB-6103", "Published messages have changed since"

    CONCURRENT_RUN = "WB-7001", "Another run was faster"
    LAKE_FILE_LOST = "WB-7002", "The lake has lost a file"
    PLACE_NOT_WRITABLE = "WB-7003", "A folder cannot be written"
    DISK_FULL = "WB-7004", "No space is left for the lake"
    VALUE_LOST = "WB-7005", "A merged table has lost values"
    STORE_UNREACHABLE = "WB-7101", "An object store does not answer"
    STORE_DENIED = "WB-7102", "An object store denies access"
    STORE_ADDRESS = "WB-7103", "An address of storage is wrong"
    CATALOG_UNREACHABLE = "WB-7201", "The catalog does not answer"
    CATALOG = "WB-7202", "The catalog cannot be used as configured"

    KAFKA_UNREACHABLE = "WB-8001", "Kafka brokers do not answer"
    KAFKA_REFUSED = "WB-8002", "Kafka brokers refuse a request"
    REGISTRY_UNREACHABLE = "WB-8101", "The schema registry does not answer"
    REGISTRY_REFUSED = "WB-8102", "The schema registry refuses a request"
    DRIVER_UNREACHABLE = "WB-8201", "The driver does not answer"
    DRIVER_CONNECTION = "WB-8202", "The connection to the driver is wrong"
    DRIVER_REFUSED = "WB-8203", "The driver refuses a stage"
    DATABASE_UNREACHABLE = "WB-8251", "The source database does not answer"
    DATABASE_REFUSED = "WB-8252", "The source database refuses a query"
    TASKS_ENDED = "WB-8301", "Tasks of Spark ran out of memory or were ended"

    RECONCILIATION = "WB-9001", "Rows in and rows out do not add up"
    BULK_DIFFERS = "WB-9002", "Bulk conversion and exact conversion differ"
    ENVELOPE_FAULT = "WB-9003", "The code of an envelope failed"

    def __str__(self) -> str:
        return self.label

    @classmethod
    def of(cls, label: str | None) -> Code | None:
        """The code of a label, None if it has none."""
        return next((code for code in cls if code.label == label), None)


class WaybillError(Exception):
    """The root: anything Waybill raises on purpose.

    Attributes:
        code: why a stage stopped; None where the error stops no stage.
        sentence: what is wrong and what to do, without the code. Results, mails and pages have it,
            so it counts rows and names no key or value of one.
        logged: the same for the log of the task and the terminal, where it may name a key.
    """

    exit_code = 1
    transient = False
    code: Code | None = None

    def __init__(
        self, *arguments: Any, code: Code | None = None, logged: str | None = None
    ) -> None:
        super().__init__(*arguments)
        self.sentence = str(arguments[0]) if arguments else ""
        self.logged = logged
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        shown = self.sentence if self.logged is None else self.logged
        return shown if self.code is None else f"{self.code}: {shown}"


class ConfigurationError(WaybillError):
    """A wrong specification, option or environment; running again does not help."""

    exit_code = 2


class MissingColumnError(ConfigurationError):
    """A condition asks for a column that a row does not have, and nobody knows why."""


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

    def __init__(self, message: str, transient: bool, code: Code | None = None) -> None:
        super().__init__(message, transient, code=code)
        self.transient = transient


class UnavailableError(WaybillError):
    """A server cannot be reached, or failed every time it was asked; running again may help."""

    transient = True


class LakeError(WaybillError):
    """A file that the lake's own records name is gone; running again does not bring it back."""


_KEY_OF_ROW = re.compile(r"\Athe row .* of (?=.* has no value in its column )", re.DOTALL)


def value_lost(logged: str) -> LakeError:
    """The error of a row whose exact text cannot be made any more.

    Args:
        logged: the sentence as tasks and queries raise it: `the row KEY of TABLE has no value in
            its column …`.
    """
    sentence = _KEY_OF_ROW.sub("a row of ", logged)
    return LakeError(sentence, code=Code.VALUE_LOST, logged=logged)


class ReconciliationError(WaybillError):
    """Rows in and rows out of a stage do not add up; nothing was committed."""

    code = Code.RECONCILIATION


class SchemaChangeError(WaybillError):
    """The stream changed a table in a way that a person has to decide about.

    Attributes:
        table: qualified name of the table, where others could go on without it.
    """

    table = ""


class WaitingError(WaybillError):
    """Something that the merge waits for has not come for longer than the migration allows."""


class GateError(WaybillError):
    """The quality gate said no; nothing was published.

    Attributes:
        report: the account of the stage that judged (`StageReport.to_dict`), None where the error
            comes from another stage.
    """

    exit_code = 3

    def __init__(
        self, message: str, report: dict[str, Any] | None = None, code: Code | None = None
    ) -> None:
        super().__init__(message, report, code=code)
        self.report = report


class DifferenceError(WaybillError):
    """The merged tables, or what was published, differ from what they were made of."""

    exit_code = 3


class LossError(WaybillError):
    """The target envelope cannot carry what the source holds and `on_loss: fail` is set."""

    exit_code = 2
    code = Code.LOSS


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


class LimitRefusal(Refusal):
    """A message that is more than a setting allows: it says nothing against the envelope."""


REFUSAL_KINDS = {
    "json": "not one JSON value in UTF-8",
    "binary": "bytes of a binary message that are cut off, left over or have a wrong checksum",
    "shape": "a required field is missing or has the wrong type",
    "operation": "an operation that the envelope does not have",
    "value": "a value that its column's type does not allow",
    "key": "the key of the row is not known",
    "schema": "the columns' types are not known",
    "pair": "half of an update without its other half",
    "sequence": "a change without the sequence id that its envelope requires, or with one too many",
    "column": "a value that does not fit the column of the merged table",
    "encoding": "a value that the target envelope cannot carry",
}
"""Every class of refusal and what it means."""


def described(error: BaseException) -> dict[str, Any]:
    """An error as plain data: what it is, and whether running again may help."""
    code = None
    if isinstance(error, WaybillError):
        transient, status, code = error.transient, error.exit_code, error.code
    else:
        # A wrong program stays wrong; files, networks and processes may come back.
        wrong = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, ImportError)
        transient, status = not isinstance(error, wrong), 1
    said = error.sentence if isinstance(error, WaybillError) else str(error)
    message = said.strip() or type(error).__name__
    if not isinstance(error, WaybillError):
        first, *more = message.splitlines()
        # What Java threw comes second, after a sentence that names nothing but a number.
        message = more[0].removeprefix(": ") if more and _CALL.match(first) else first
    return {
        "kind": type(error).__name__,
        "code": code and code.label,
        "message": message,
        "transient": transient,
        "exit_code": status,
    }
