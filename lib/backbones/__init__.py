"""Backbones: models that map tokens to states, or texts to results. `contract.py` is their interface.

Each backbone has a folder: `settings.py` (no torch), `backbone.py`, and its own further modules; a small one is a
single file that holds both and imports torch within its functions.

Shared modules are next to them: `heads/`, for the models of tasks; `configuration.py` and `stored.py`; `reading.py`,
the forward pass of models without a head; `architecture.py`, for backbones around an architecture of transformers;
`registration.py`, which registers models with transformers.
"""
