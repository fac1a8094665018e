"""Maxwell (zendesk/maxwell): rows of a MySQL binlog as JSON."""
