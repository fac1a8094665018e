"""Registers Waybill's pages with Airflow."""

from __future__ import annotations

from waybill_airflow.plugin import WaybillPlugin

__all__ = ["WaybillPlugin"]
