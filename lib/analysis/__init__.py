"""What trained models do inside: two modules per kind of analysis, both called as the kind.

`lib/analysis/heads.py` has the `Settings` of the kind and shows its table, without torch: `draw(frame, families)` is a
figure of the models in order, each with the family that colours it, and `summarise(frame)` has the main numbers.
`lib/analysis/computations/heads.py` makes the table: `analyse(subject, **options)`. No kind knows how runs are made.
"""
