"""Differential attention: the difference of two softmax maps."""
