"""A Java beside Spark's."""

from __future__ import annotations

import py4j.java_gateway
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions import captured

from tests.consumers.java_machine import java_reason


def test_spark_is_not_asked_about_its_exceptions(connect_java, monkeypatch) -> None:
    """Which PySpark does from the first session on, for every machine there is."""
    original = py4j.java_gateway.get_return_value
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", original)
    captured.install_exception_handler()

    def asked(_: object) -> None:
        pytest.fail("Spark was asked")

    monkeypatch.setattr(captured, "_convert_exception", asked)
    with pytest.raises(Py4JJavaError) as raised:
        connect_java.jvm.java.lang.Integer.parseInt("x")
    assert "NumberFormatException" in java_reason(raised.value)
