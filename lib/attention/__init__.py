"""Attention mechanisms: the map from queries, keys and values to outputs.

`contract.py` is the interface of a mechanism and builds one; `interface.py` offers mechanisms to transformers' models,
whose windowed layers `windowed_layers.py` computes in linear time.
Each mechanism has a folder: `settings.py` (no torch), `mechanism.py` (its arithmetic) and `reference.py` (the same,
dense and in float64, to test against). Projections, positions and the other dropouts are the layer's.
"""
