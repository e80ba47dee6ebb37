"""FAVOR+ attention (Performer)."""
