"""The table of messages that name none, as engines write them that know a table by its topic.

Source of the need: the sinks of Apache Flink's canal-json, maxwell-json and ogg-json formats, which
write rows and the kind of change and nothing else.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from waybill.errors import Refusal
from waybill.protocol import Settings

_TOPIC = "{topic}"
_NAME = re.compile(r"([^.{}]+\.)?[^.{}]+")


def _checked(text: str) -> str:
    if _NAME.fullmatch(text.replace(_TOPIC, "topic", 1)) is None:
        raise ValueError(
            f"{text[:60]!r} is no name of a table: write database.table or table; {_TOPIC} in it "
            "is the name of the topic"
        )
    return text


UnnamedTable = Annotated[str, AfterValidator(_checked)]
"""A setting that names the table of messages that name none."""

DESCRIPTION = (
    "The table of messages that name none, as Flink writes them: `database.table`, or `{topic}` "
    "for the name of the topic, of which the last two parts are database and table. Declare its "
    "key and its types under tables. Left out, such messages are refused."
)
HINT = "where the writer names no table (Flink does not), set `table` in the settings of the source"
"""What a refusal of such a message says of the way out."""


class UnnamedTableSettings(Settings):
    """Settings for reading where messages may name no table."""

    table: UnnamedTable | None = Field(default=None, description=DESCRIPTION)

    @property
    def in_bulk(self) -> bool:
        """See `Settings.in_bulk`."""
        return self.table is None


def named_by(setting: str | None, topic: str, what: str) -> tuple[str | None, str]:
    """Database and table of a message of a topic that names none.

    Args:
        setting: the table, None where the settings name none.
        topic: name of the topic.
        what: the message, as the format calls it.

    Raises:
        Refusal: the settings name no table.
    """
    if setting is None:
        raise Refusal("shape", f"{what} names no table; {HINT}")
    parts = setting.replace(_TOPIC, topic, 1).split(".")
    return (parts[-2] or None) if len(parts) > 1 else None, parts[-1]
