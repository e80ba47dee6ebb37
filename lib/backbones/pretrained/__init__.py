"""An architecture of transformers as it is, with attention that can be made bidirectional, and is checked."""
