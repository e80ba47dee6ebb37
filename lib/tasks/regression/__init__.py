"""Regression: predicts a number for a document or a pair of texts."""
