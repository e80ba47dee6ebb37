"""Attention of blocks of tokens to lists of blocks: shared by the kinds `window`, `bigbird` and `strided`."""
