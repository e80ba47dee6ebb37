"""Detection of spans, given in characters."""
