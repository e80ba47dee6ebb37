"""Digests of code that is edited while the tests run."""

from lib.core import extensions
from lib.workflow.staleness import digests


def at(folder, patch):
    """Let `digests` read the project in a folder."""
    for module in (digests, extensions):
        patch.setattr(module, "ROOT", folder)
    patch.setenv(extensions.VARIABLE, "")


def forget(function, *arguments):
    """Call a function of `digests` as a new process would."""
    for each in vars(digests).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()
    return function(*arguments)
