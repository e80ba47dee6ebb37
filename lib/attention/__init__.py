"""Attention mechanisms: the map from queries, keys and values to outputs, and nothing around it.

`contract.py` says what a mechanism owes, `registry.py` finds and builds one, `<kind>.py` holds its arithmetic,
`reference/<kind>.py` its dense float64 truth. Projections, positions and the other dropouts are the layer's.
"""
