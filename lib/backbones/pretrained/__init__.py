"""An architecture of transformers as it is, with its attention opened to both sides if asked for, and proved so."""
