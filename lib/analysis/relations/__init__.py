"""Which attention heads point from a word to the word that it belongs to."""
