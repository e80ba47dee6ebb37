"""One module per kind of table: `Settings`, its settings, and `make(settings, scope)`, which returns the table.

`make` raises `DataError` where a run or file that it shows is missing, damaged or duplicated, or lacks what is shown;
docstrings name other errors.
"""
