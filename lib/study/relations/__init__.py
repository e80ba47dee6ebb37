"""Whether the models and stages of a study fit together, where all that it names is there (`lib.study.names`).

Each of the `RELATIONS` of a module yields sentences about one relation, each with the place of the setting at fault.
"""

from collections.abc import Iterator

from lib.study.graph import Graph
from lib.study.relations import backbones, derivable, labels, searches, teachers, weights


def underivable(graph: Graph) -> Iterator[str]:
    """Yield why a run cannot be derived: what it does, by which backbone and tokeniser, and from which run."""
    for relation in derivable.RELATIONS:
        yield from relation(graph)


def misfits(graph: Graph) -> Iterator[str]:
    """Yield what does not fit together in an experiment whose runs can be derived."""
    for module in (searches, labels, teachers, weights, backbones):
        for relation in module.RELATIONS:
            yield from relation(graph)
