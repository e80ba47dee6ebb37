"""Attention of blocks of tokens to lists of blocks: what the kinds `window`, `bigbird` and `strided` share."""
