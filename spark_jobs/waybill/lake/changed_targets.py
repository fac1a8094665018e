"""Sees to it that messages are judged by the target that they were written for.

The gate reads what waits for it with the target that the file has by then. If its envelope or its
mapping is another one since, right messages look wrong, and no target fits those of two batches.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from waybill.envelopes import registry
from waybill.errors import Code, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from waybill.lake.history import History
    from waybill.spec.endpoints import Target
    from waybill.spec.migration import Migration

WRITTEN_AS = "targets_as"
"""The detail that tells, by target, what its messages were written as (`mark_of`)."""

JUDGED = "outbox"
"""Where the gate's cursor tells up to which messages it has let something through."""


def mark_of(target: Target) -> str:
    """A mark of all that reading messages of a target rests on.

    Settings that decide about ids are kept with the batches (`waybill.made_ids.IDS_WRITTEN`), and
    what only the writer knows changes nothing for a reader, as long as bytes are not compared.
    """
    envelope = registry.get(target.envelope)
    read = envelope.decode_settings.model_fields
    whole = envelope.encode_settings.ends_windows
    ids = envelope.encode_settings.model_validate(target.settings).of_ids()
    settings = {
        name: value
        for name, value in target.settings.items()
        if name not in ids and (whole or name in read)
    }
    plain: dict[str, Any] = target.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, include={"envelope", "select", "map"}
    )
    text = json.dumps({**plain, "settings": settings}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def marks_of(spec: Migration) -> dict[str, str]:
    """The marks of a migration's targets by their names."""
    return {target.label: mark_of(target) for target in spec.publish}


def _read_again(spec: Migration) -> dict[str, str]:
    """The same of those whose messages the gate can read."""
    readable = [one for one in spec.publish if registry.get(one.envelope).decoder is not None]
    return {target.label: mark_of(target) for target in readable}


def check_targets(spec: Migration, lake: History) -> None:
    """See that no messages wait for the gate that were written for a target as it was before.

    A gate that only reports judges them by the new target, and lets them through.

    Raises:
        ConfigurationError: some do.
    """
    if spec.quality.on_failure == "report" or not spec.publish:
        return
    now, judged = _read_again(spec), lake.last(lake.log("runs"), "validate")
    if judged is not None and JUDGED not in judged.cursor:
        return
    after, outbox = None if judged is None else judged.cursor[JUDGED], lake.log("outbox")
    metadata = lake.found(outbox)
    if metadata is None or (after is not None and after not in metadata.snapshots):
        return
    for commit in lake.between(outbox, after, None):
        details: Mapping[str, Any] = commit.report["details"]
        for label, mark in details.get(WRITTEN_AS, {}).items():
            wrote = details.get("targets", {}).get(label, {}).get("messages")
            if wrote and now.get(label, mark) != mark:
                message = (
                    f"messages of batch {commit.batch} for the target {label} wait for the gate, "
                    "and the file gives that target another envelope, select, map or settings by "
                    "now, with which they cannot be judged: restore these until the batch is "
                    "published, then change them; or give the changed target another name and "
                    f"place, and list {label} under dropped_targets"
                )
                raise ConfigurationError(message, code=Code.TARGET_CHANGED)
