"""Zero-shot classification: documents compared with a phrase per class."""
