"""Attention to blocks of tokens nearby, global and drawn at random (BigBird)."""
