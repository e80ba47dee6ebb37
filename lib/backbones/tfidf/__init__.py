"""TF-IDF n-grams and logistic regression: the baseline for every encoder."""
