"""Keys that are numbers of 32 bits, as MySQL compares them."""

from __future__ import annotations

import struct

import pytest

from waybill.connections import Connection
from waybill.types import LogicalType
from waybill.verify.canonical import MYSQL, SourceColumn
from waybill.verify.database import SourceTable
from waybill.verify.mysql import MySQL

COLUMN = SourceColumn("k", "float", LogicalType("float32"), MYSQL)
TABLE = SourceTable(("shop", "t"), (COLUMN,))


def literal(text: str) -> str:
    piece = MySQL(Connection("source", "mysql")).key_piece(TABLE, [COLUMN], [[text]])
    before, _, rest = piece.where.partition(" IN ((")
    assert (piece.source, before) == ("`shop`.`t`", "(`k`)")
    return rest.removesuffix("))")


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-Infinity", "1e39", "", "0,1", "0x1p-2", "x' OR 1"]
)
def test_what_is_no_number_of_the_database_is_of_no_row(text):
    assert literal(text) == "NULL"


@pytest.mark.parametrize(
    "text", ["0.1", "-0.1", "1", "16777216", "3.4028235e+38", "1.4e-45", "1.1754944e-38", "-0.0"]
)
def test_a_number_is_the_double_that_the_server_compares_it_as(text):
    found = literal(text)
    assert "e" in found, "without an exponent it would be a decimal"
    (single,) = struct.unpack("<f", struct.pack("<f", float(text)))
    assert struct.pack("<d", float(found)) == struct.pack("<d", single)
