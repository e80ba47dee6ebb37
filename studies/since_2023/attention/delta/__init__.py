"""The delta rule: a state that replaces what a key held, with or without decay."""
