"""Span corruption, the pretraining objective of T5."""
