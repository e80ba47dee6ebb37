"""Backbones: models that map tokens to states, or texts to results. `contract.py` is their interface.

Each backbone has a folder: `settings.py` (no torch), `backbone.py`, and its own further modules; a small one is a
single file that holds both and imports torch within its functions.

Shared modules are next to them: `heads/`, which tasks put on their models; `configuration.py` and `loading.py`;
`architecture.py`, for those that hold an architecture of transformers; `registration.py`, which tells transformers.
"""
