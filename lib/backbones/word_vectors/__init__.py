"""Mean of a text's word vectors and logistic regression: the baseline of the years between TF-IDF and transformers."""
