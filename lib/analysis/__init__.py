"""What trained models do inside: one module per kind of analysis, found by its name, with a function `analyse`.

Reads finished runs and tokens, and returns frames; drawing them is `lib.results.analyses`.
"""
