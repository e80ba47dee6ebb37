"""Exact scaled dot-product attention."""
