"""A run from its settings to its record: the training loop, evaluation, checkpoints, searches."""
