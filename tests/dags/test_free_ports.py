"""Ports that servers of one process listen on."""

from __future__ import annotations

from types import SimpleNamespace

from waybill_airflow import free_ports


def test_no_port_is_given_twice(monkeypatch):
    """Who asked first may not listen yet."""
    first, other = free_ports.free_port(), free_ports.free_port()
    free_ports._given.discard(other)
    same = SimpleNamespace(sample=lambda _ports, _count: [first, other])
    monkeypatch.setattr(free_ports, "_chosen", same)
    assert free_ports.free_port() == other
