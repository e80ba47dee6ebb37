"""The state-space encoder: layers that carry a state of fixed size through a document, both ways at once.

It does not know data, training or metrics.
"""
