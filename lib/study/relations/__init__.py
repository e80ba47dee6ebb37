"""Check that models and stages of a study fit together, once all names exist (`lib.study.names`).

Each of the `RELATIONS` of a module checks one relation, and yields errors that begin with the place of the setting.
"""

from collections.abc import Iterator

from lib.study.graph import Graph
from lib.study.relations import backbones, derivable, labels, searches, teachers, weights


def derivation_errors(graph: Graph) -> Iterator[str]:
    """Yield why the backbone, tokeniser, task or parent of a run cannot be derived."""
    for relation in derivable.RELATIONS:
        yield from relation(graph)


def fit_errors(graph: Graph) -> Iterator[str]:
    """Yield the settings that do not fit together in an experiment whose runs can be derived."""
    for module in (searches, labels, teachers, weights, backbones):
        for relation in module.RELATIONS:
            yield from relation(graph)
