"""Which models are worth their cost: those that no other beats in one respect without being worse in another."""

import pandas as pd


def dominance(costs: pd.DataFrame) -> pd.DataFrame:
    """Return whether each row is dominated by each column; the front is the rows without any.

    A model dominates another if it costs no more in any respect, and less in one. Equal ones do not dominate each
    other.

    Args:
        costs: one row per model, one column per respect, smaller being better.
    """
    values = costs.to_numpy(dtype=float)  # [M, D]
    theirs, ours = values[None], values[:, None]
    dominated = (theirs <= ours).all(axis=-1) & (theirs < ours).any(axis=-1)
    return pd.DataFrame(dominated, index=costs.index, columns=costs.index)


def front(costs: pd.DataFrame) -> list:
    """Return the rows of `costs`, as `dominance` takes them, that no other dominates."""
    return costs.index[~dominance(costs).any(axis=1)].tolist()
