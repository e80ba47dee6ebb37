"""Metrics of classifiers and language models, and the statistics of their differences. Never imports torch."""
