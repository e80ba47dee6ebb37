"""From run records to tables and figures. Reads finished records only, and never imports torch or transformers."""
