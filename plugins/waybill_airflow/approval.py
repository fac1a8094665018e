"""A held batch as a question to a person: Airflow's *Required actions*.

The task itself waits (`awaiting_input`), without a worker, and comes back with the answer. What is
asked is made of names out of other people's messages, so all of it is escaped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk import Param

from waybill.counting import counted
from waybill_airflow.links import MOUNT, gate_path
from waybill_airflow.places import base_path

if TYPE_CHECKING:
    from airflow.sdk import Context

PUBLISH = "Publish as it is"
DROP = "Drop and merge again with the next"
LEAVE = "Leave held"

WHY = "why"
"""The field of the form that holds the reason."""

LONGEST_RULE = 400
"""Characters of a rule that the question shows; the report shows all of it."""

_SIGNS = re.compile(r"([\\`*_{}\[\]()#+\-.!|~^$:/@=])")
"""What means something in Markdown, or makes a link of a plain address."""


class Answer(NamedTuple):
    """What a person has chosen.

    Attributes:
        what: a decision that the gate takes (`waybill.lake.decisions.DECISIONS`); None to leave the
            batch held.
        by: who; None where nobody answered in time.
        reason: why, empty where that was not said.
    """

    what: str | None
    by: str | None
    reason: str

    @property
    def lacks_reason(self) -> bool:
        """Whether it cannot be taken as it is: who publishes what failed has to say why."""
        from waybill.lake.decisions import APPROVED

        return self.what == APPROVED and not self.reason


def question_of(dag_id: str, batch: str, details: dict[str, Any]) -> dict[str, Any]:
    """What is asked about a held batch, the same for the same verdict.

    Args:
        dag_id: the migration.
        batch: the batch.
        details: those of the report of the gate that said no.
    """
    rules = details.get("held_for") or []
    waivable = bool(rules) and all(rule["waivable"] for rule in rules)
    more = details.get("failed_critical", len(rules)) - len(rules)
    lines = [
        f"Batch `{batch}` fails {counted(len(rules) + more, 'critical rule')}. Nothing of "
        "it is visible or published.",
        "",
        *(f"- {_shown(rule)}" for rule in rules),
        *([f"- and {more} more"] if more > 0 else []),
        "",
        f"[Gate report]({base_path()}{MOUNT}{gate_path(dag_id, batch)})",
        "",
        *_choices(waivable),
    ]
    return {
        "subject": f"Batch {batch} of {dag_id} does not pass the gate",
        "body": "\n".join(lines),
        "options": [*([PUBLISH] if waivable else []), DROP, LEAVE],
        "verdict": details.get("verdict"),
    }


def _choices(waivable: bool) -> list[str]:
    publish = (
        f"- **{PUBLISH}**: the gate runs once more and lets the batch pass if it finds the "
        "same. Say why."
        if waivable
        else "- It cannot be published as it is: no one may waive a rule that is marked so."
    )
    return [
        publish,
        f"- **{DROP}**: for when the cause is fixed. The next batch merges its changes again, with "
        "new ones, and tries its refused messages again.",
        f"- **{LEAVE}**: this task fails. The next batch waits until the cause is fixed.",
    ]


def _shown(rule: dict[str, Any]) -> str:
    text = " ".join(rule["rule"].split())
    text = text if len(text) <= LONGEST_RULE else f"{text[: LONGEST_RULE - 1]}…"
    return escaped(text) + ("" if rule["waivable"] else " **(never waived)**")


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SIGNS.sub(r"\\\1", plain)


def ask(context: Context, question: dict[str, Any]) -> bool:
    """Put a question, or put it once more.

    Returns:
        Whether it is what people see. Airflow keeps the first question of a task, also when the
        task is cleared; another one would be answered by people who have not read it.
    """
    from airflow.sdk.execution_time.comms import CreateHITLDetailPayload
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    shown: Any = SUPERVISOR_COMMS.send(
        CreateHITLDetailPayload(
            ti_id=context["ti"].id,
            options=question["options"],
            subject=question["subject"],
            body=question["body"],
            defaults=[LEAVE],
            multiple=False,
            params={WHY: _form().serialize()},
            assigned_users=[],
        )
    )
    same = ("options", "subject", "body")
    return all(getattr(shown, name, None) == question[name] for name in same)


def _form() -> Param:
    from waybill.lake.decisions import LONGEST_REASON  # loads PyArrow

    return Param(
        None,
        type=["null", "string"],
        title="Why",
        description_md=f"Needed for *{PUBLISH}*. Stored with the batch, with your name.",
        maxLength=LONGEST_REASON,
    )


def answer_of(event: dict[str, Any]) -> Answer:
    """The answer, as Airflow hands it to the task."""
    from waybill.lake.decisions import APPROVED, DROPPED  # loads PyArrow

    chosen = list(event.get("chosen_options") or [LEAVE])
    user = event.get("responded_by_user") or {}
    given = (event.get("params_input") or {}).get(WHY)
    reason = " ".join(given.split()) if isinstance(given, str) else ""
    what = {PUBLISH: APPROVED, DROP: DROPPED}.get(chosen[0])
    return Answer(what, user.get("name") or user.get("id"), reason)
