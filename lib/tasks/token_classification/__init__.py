"""Classification of every word of a document."""
