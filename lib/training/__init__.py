"""Training on the transformers Trainer: what it lacks, and one module a kind of stage."""
