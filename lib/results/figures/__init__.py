"""One module per kind of figure: `Parameters`, its settings, and `draw(settings, scope)`, which returns the figure."""
