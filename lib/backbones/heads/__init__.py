"""What stands on the states of every backbone: pooling, heads, loss, and the models that put them together."""
