"""Written messages are read again as the topic was said to be."""

from __future__ import annotations

import pytest

from waybill.spec.endpoints import Source, Target
from waybill.validate.readers import readers_of


@pytest.mark.parametrize(
    ("source", "target", "ids"),
    [
        ("oms-default", "oms-extended", "none"),
        ("oms-dataworks", "oms-dataworks", "none"),
        ("oms-default", "oms-dataworks", None),
        ("datahub-blob", "datahub-blob", None),
    ],
)
def test_a_topic_without_ids_stays_one_in_its_family(source, target, ids):
    """Elsewhere ids are made, and a message that lacked one would be refused."""
    files = {"path": "in/*.jsonl", "layout": "lines", "topic": "t"}
    settings = {"sequence_ids": "none"}
    came = Source.model_validate({"envelope": source, "files": files, "settings": settings})
    goes = Target.model_validate({"envelope": target, "files": {"path": "out"}})
    (reader,) = readers_of(came, [goes], []).values()
    assert reader.settings.get("sequence_ids") == ids
