"""What tests of Databus share."""

from __future__ import annotations

import pytest

from tests.unit.envelopes.databus.persons import PERSON


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "com.acme.events.Person.1.avsc").write_text(PERSON)
    return str(tmp_path)
