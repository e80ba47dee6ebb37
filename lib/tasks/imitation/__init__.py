"""Imitation of another model's states: attention transfer."""
