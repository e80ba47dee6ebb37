"""Zero-shot classification: documents beside a phrase per class."""
