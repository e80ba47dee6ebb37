"""A number for a whole document, or for a pair of texts."""
