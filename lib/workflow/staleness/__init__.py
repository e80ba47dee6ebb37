"""What is stale: digests of code, accepted states, and the causes in words."""
