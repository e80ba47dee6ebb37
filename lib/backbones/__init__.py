"""Backbones: what maps tokens to states, or texts to results. `contract.py` says what a backbone owes.

Each backbone has a folder: `parameters.py` (no torch), `backbone.py`, and what else it alone needs; a small one is a
single file that holds both and imports torch within its functions.

What several share lies beside them: `heads/`, which tasks put on their models; `configuration.py` and `loading.py`;
`architecture.py`, for those that hold an architecture of transformers; `registration.py`, which tells transformers.
"""
