"""Gated linear attention: a state whose channels decay at rates of the token."""
