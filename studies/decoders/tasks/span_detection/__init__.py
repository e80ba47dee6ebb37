"""Detection of spans of characters."""
