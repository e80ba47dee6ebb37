"""Vectors of texts by published encoders that do not train, and a linear decision."""
