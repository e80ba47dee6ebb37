"""The recurrent encoder: layers that read a document in both directions, and their models with a head.

It does not know data, training or metrics.
"""
