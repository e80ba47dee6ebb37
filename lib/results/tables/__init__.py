"""One module per kind of table: `Parameters`, its settings, and `make(settings, scope)`, which returns the table."""
