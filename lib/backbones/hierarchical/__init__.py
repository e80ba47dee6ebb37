"""Encoders that read a document in segments, whose vectors a head combines."""
