"""A document read in segments, each by an encoder, and their vectors put together: models with a head.

It does not know data, training or metrics.
"""
