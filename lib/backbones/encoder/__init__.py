"""The encoder: a BERT-style stack with an exchangeable attention mechanism."""
