"""How well a classifier or a language model does: metrics, and the classical baseline. Never imports torch."""
