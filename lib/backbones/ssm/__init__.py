"""The state-space encoder: layers with a state of fixed size, which read a document in both directions."""
