"""Shared by all packages: settings, paths, run records, errors, atomic writes, keyed seeds.

Standard library, pydantic and PyYAML only, so that the workflow can import it without torch.
"""
