"""How much of a gradient arrives from how far."""
