"""State space duality: Mamba-2's scan from both ends, and the token itself in between."""
