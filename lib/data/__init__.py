"""From raw text to batches: sources, preparations, tokeniser, collators, samplers."""
