"""Causal language modelling."""
