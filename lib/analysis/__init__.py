"""What trained models do inside: a folder per kind of analysis, found by its name, with three modules.

`parameters` has the options and thresholds, `computation` a function `analyse` from a model to a table, and `figure`
what is made of that table alone: `draw`, a figure, and `summarise`, the main numbers. Neither knows how runs are made.
"""
