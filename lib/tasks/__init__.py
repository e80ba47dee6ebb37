"""Tasks: objectives, batches and scores. `contract.py` is their interface; each task has a folder or a file."""
