"""The trivial baseline for spans: every character is in one."""
