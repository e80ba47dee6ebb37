"""TF-IDF over character n-grams around each word, and logistic regression: the baseline that finds spans."""
