"""Attention within chunks, for the contract tests alone: a mechanism by blocks in which seeing is not mutual."""
