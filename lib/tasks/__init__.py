"""Tasks: what is learnt and how it is scored. `contract.py` says what a task owes; each task has a folder or a file."""
