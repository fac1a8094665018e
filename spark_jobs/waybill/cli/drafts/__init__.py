"""A migration's file to begin with, made from a look at the source: `waybill init`."""
