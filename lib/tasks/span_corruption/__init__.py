"""Span corruption, the objective by which T5 was pretrained."""
