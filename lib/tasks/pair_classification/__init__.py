"""Classification of pairs of texts, each of which is read by itself."""
