"""Plain Python for the Snakefile: paths, targets, resolved runs, resources, code digests. Never torch."""
