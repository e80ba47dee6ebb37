"""Top-k attention by blocks: every block of queries attends to its neighbours and to the blocks that match best."""
