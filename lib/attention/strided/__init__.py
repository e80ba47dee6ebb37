"""Attention to the tokens nearby and to those at multiples of a stride (Sparse Transformer)."""
