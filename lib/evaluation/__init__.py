"""Metrics of classifiers and language models, and the statistics of their differences.

Only `agreement` and `attention_geometry`, which are of tensors, import torch.
"""
