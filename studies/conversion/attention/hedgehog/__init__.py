"""Hedgehog: linear attention by a learned feature map."""
