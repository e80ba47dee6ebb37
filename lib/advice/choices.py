"""What is known of every model at every length limit, and which of them to take."""

from collections.abc import Sequence
from dataclasses import dataclass

from lib.advice.scores import Scores
from lib.measure.estimates import Cost

BEARABLE = 0.05
"""Share of the text that a limit may lose."""


@dataclass(frozen=True)
class Choice:
    """What is known of a model at a limit."""

    model: str
    limit: int
    adaptation: Cost
    classification: Cost
    hours: float
    """Of both stages, all their epochs."""
    f1: float | None
    """In per cent; None = nothing is known."""

    @property
    def costs(self) -> tuple[Cost, Cost]:
        """Those of both stages."""
        return self.adaptation, self.classification

    @property
    def fits(self) -> bool:
        """Whether this machine's memory suffices for both stages."""
        return all(cost.fits for cost in self.costs)


@dataclass(frozen=True)
class Limit:
    """What a length limit does to the texts, and what is known at it."""

    tokens: int
    lost: float
    """Share of the text."""
    cut: float
    """Share of the documents."""
    scores: Scores | None
    choices: list[Choice]


def choose(table: Sequence[Limit], points: float) -> Choice | None:
    """Return the model and the limit to take; None if no model fits at any limit.

    The limit is the shortest that loses at most `BEARABLE` of the text, or the longest; the next shorter one where no
    model fits. Of the models that fit there, those whose macro-F1 is known to lie within `points` of the best one
    remain, and the one that takes the least time is the choice.

    Args:
        table: what is known at each limit, ascending.
        points: in per cent.
    """
    enough = next((number for number, limit in enumerate(table) if limit.lost <= BEARABLE), len(table) - 1)
    for limit in reversed(table[: enough + 1]):
        fitting = [choice for choice in limit.choices if choice.fits]
        known = [choice.f1 for choice in fitting if choice.f1 is not None]
        near = [choice for choice in fitting if not known or (choice.f1 or 0.0) >= max(known) - points]
        if near:
            return min(near, key=lambda choice: choice.hours)
    return None
