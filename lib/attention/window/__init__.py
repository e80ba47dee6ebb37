"""Attention to the tokens nearby (sliding window)."""
