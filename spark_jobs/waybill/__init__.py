"""Waybill moves change-data-capture topics between the envelopes of database replication tools."""

__version__ = "0.1.0"
