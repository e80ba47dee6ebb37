"""TF-IDF n-grams and logistic regression: the baseline that every encoder has to beat."""
