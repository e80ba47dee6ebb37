"""A study: its configuration as typed settings, resolved into runs. Imports no torch."""
