"""Classification of pairs of texts that are read separately."""
