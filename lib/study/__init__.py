"""A study: its configuration as typed sections, resolved into runs. Imports no torch."""
