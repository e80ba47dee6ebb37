"""Backbones: what maps tokens to states. Each kind is found by name in this folder."""
