"""Digests of code that is edited while the tests run."""

from lib.workflow.staleness import digests


def forget(function, *arguments):
    """Call a function of `digests` as a new process would."""
    for each in vars(digests).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()
    return function(*arguments)
