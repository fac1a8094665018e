"""Migrations as text, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from waybill.errors import ConfigurationError
from waybill.spec.file import SpecificationError, load_migration

GOOD = """\
name: shop
source:
  files: {path: in, layout: lines}
  envelope: oms-default
tables:
  shop.orders: {key: [id], columns: {amount: "decimal(38,10)"}}
publish:
  - {envelope: canal, files: {path: out}}
"""

KAFKA = """\
name: shop
source: {kafka: {SOURCE}, envelope: canal}
publish: [{envelope: maxwell, kafka: {TARGET}}]
"""


def writer_in(folder: Path) -> Callable[..., Path]:
    """Writes texts as files of a folder."""

    def writer(text: str, name: str = "shop.yaml") -> Path:
        folder.mkdir(exist_ok=True)
        file = folder / name
        file.write_text(text, encoding="utf-8")
        return file

    return writer


def problems(file: Path) -> list[str]:
    with pytest.raises(SpecificationError) as caught:
        load_migration(file)
    assert isinstance(caught.value, ConfigurationError)
    assert caught.value.exit_code == 2
    found = [sentence.removeprefix(f"{file}:") for sentence in caught.value.problems]
    assert all(str(file) not in sentence for sentence in found)
    return found
