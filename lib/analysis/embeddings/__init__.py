"""A word's contextual states compared with its static embedding."""
