"""A dataset per fold, in place of a dataset whose folds are drawn and test in turn."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from lib.core.settings import problem
from lib.preparing.settings.dataset import Dataset


def with_folds(values: Any) -> Any:
    """Return the values of a study, not checked yet, with a dataset for each fold that is drawn.

    Folds of `texts` are called `texts-1`, `texts-2`, ... What names `texts` below `data` or in a list `datasets` names
    all of them, except that a fold which has an entry of its own below `data` keeps it.

    Raises:
        PydanticCustomError: a fold would be called like another dataset.
    """
    experiment = values.get("experiment") if isinstance(values, dict) else None
    datasets = experiment.get("datasets") if isinstance(experiment, dict) else None
    if not isinstance(datasets, dict) or not isinstance(experiment, dict):
        return values
    counts = {name: _drawn_folds(section) for name, section in datasets.items()}
    folds = {name: [f"{name}-{fold}" for fold in range(1, count + 1)] for name, count in counts.items() if count}
    for name, names in folds.items():
        if taken := [each for each in names if each in datasets]:
            raise problem(f"experiment.datasets.{name}: a fold would be called {taken[0]}, as another is. Rename one")
    made = {
        each: section | {"split": section["split"] | {"fold": number}} if name in folds else section
        for name, section in datasets.items()
        for number, each in enumerate(folds.get(name, [name]), start=1)
    }
    return _with_folds(folds, values | {"experiment": experiment | {"datasets": made}})


def _drawn_folds(section: Any) -> int:
    """Return how many datasets a section stands for; 0 = for itself alone."""
    split = section.get("split") if isinstance(section, dict) else None
    if not isinstance(split, dict) or not isinstance(split.get("folds"), int) or split.get("fold") is not None:
        return 0
    try:
        return Dataset.model_validate(section).split.drawn_folds
    except ValidationError:
        return 0  # the dataset itself says so, once


def _with_folds(folds: Mapping[str, Sequence[str]], values: Any) -> Any:
    """Return a section whose names of datasets, at any depth, are those of their folds."""
    if not isinstance(values, dict) or not folds:
        return values
    found = {key: _with_folds(folds, value) for key, value in values.items()}
    if isinstance(data := found.get("data"), dict):
        found["data"] = {
            each: data.get(each, entry) for name, entry in data.items() for each in folds.get(name, [name])
        }
    if isinstance(named := found.get("datasets"), list):
        found["datasets"] = [
            each for name in named for each in (folds.get(name, [name]) if name in [*folds] else [name])
        ]
    return found
