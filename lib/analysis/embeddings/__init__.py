"""A word's contextual states beside its static embedding."""
