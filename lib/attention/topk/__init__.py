"""Top-k attention: every query attends to the keys of its highest scores."""
