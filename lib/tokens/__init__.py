"""Tokenisers, tokenised corpora, and batches of them."""
