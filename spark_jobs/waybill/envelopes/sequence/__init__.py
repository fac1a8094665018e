"""Sequence ids: who has one, and how several parts become one number that keeps their order."""
