"""One module per kind of figure: `Settings`, its settings, and `draw(settings, scope)`, which returns the figure.

`draw` raises `DataError` where a run or file that it shows is missing, damaged or duplicated, or lacks what is shown;
docstrings name other errors.
"""
