"""Which words carry a prediction."""
