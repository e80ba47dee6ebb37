"""From a model to the table of an analysis, a module per kind; what several kinds read is in `subject`."""
