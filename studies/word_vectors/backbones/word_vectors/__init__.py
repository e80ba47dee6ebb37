"""Mean of a text's word vectors and logistic regression: a baseline between TF-IDF and transformers."""
