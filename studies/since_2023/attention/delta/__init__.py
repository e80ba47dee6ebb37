"""The delta rule: a state that replaces the old value of a key, with or without decay."""
