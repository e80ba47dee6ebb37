"""Backbones: what maps tokens to states, or texts to results. `contract.py` says what a backbone owes.

Each backbone has a folder: `parameters.py` (no torch), `backbone.py`, and what else it alone needs; a small one is a
single file that holds both and imports torch within its functions.

What several share lies beside them: configuration and loading of models, and `heads/`.
"""
