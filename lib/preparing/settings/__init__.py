"""Settings of the corpora, datasets and tokenisers of a study."""
