"""Heads for the states of every backbone: pooling, heads, losses, and the models that combine them."""
