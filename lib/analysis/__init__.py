"""What trained models do inside: a folder per kind of analysis, found by its name, with three modules.

`settings` has the options and thresholds. `computation` has `analyse(subject, **options)`, from a model to a table.
`figure` shows that table alone: `draw(frame, families)`, a figure of the models in order, each with the family that
colours it, and `summarise(frame)`, the main numbers. No kind knows how runs are made.
"""
