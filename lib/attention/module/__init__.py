"""A torch module of any package in place of attention."""
