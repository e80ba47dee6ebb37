"""Every character is in a span: what every other model has to beat."""
