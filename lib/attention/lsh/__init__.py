"""LSH attention (Reformer)."""
