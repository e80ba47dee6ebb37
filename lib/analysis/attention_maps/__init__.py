"""Who attends to whom in one document, before and after training."""
