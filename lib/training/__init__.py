"""Execution of a run: the training loop, evaluation, checkpoints, searches."""
