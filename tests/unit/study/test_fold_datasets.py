"""A dataset with folds stands for one dataset per fold wherever it is named."""

import pytest
from small_studies import DATASET, study

from lib.core.errors import ConfigError

NAMES = ["imdb-1", "imdb-2", "imdb-3"]
POOLED = {"kind": "confusion", "stage": "finetune", "pooled": True}
OTHER_SEED = {"stages": {"finetune": {"data": {"imdb-2": {"seeds": [4]}}}}}


def over(experiment=(), **values):
    layer = values | {"experiment": dict(experiment)}
    return study(("datasets/imdb", DATASET | {"split": {"folds": 3, "seed": 7}}), layers=[("over.yaml", layer)])


def test_names_are_those_of_the_folds():
    change = {"changes": {"tapt": {"data": {"imdb": {"mechanism": "favor-m64"}}}}}
    made = over({"models": {"tfidf": {"datasets": ["imdb"]}, "sdpa": change}} | OTHER_SEED, only={"datasets": ["imdb"]})
    splits = [(name, each.split.fold, each.split.seed) for name, each in made.experiment.datasets.items()]
    assert splits == [("imdb-1", 1, 7), ("imdb-2", 2, 7), ("imdb-3", 3, 7), ("arxiv", None, 42)]
    assert [work.seeds for work in made.experiment.stages["finetune"].data.values()] == [None, [4], None, None]
    models = made.experiment.models
    assert [*models["sdpa"].changes["tapt"].data] == models["tfidf"].datasets == made.only.datasets == NAMES


@pytest.mark.parametrize(("change", "names"), [({"folds": 2}, NAMES[:2]), ({"fold": 3}, ["imdb"])])
def test_overridden_folds(change, names):
    """A file that extends another one changes the number of its folds, or asks for one of them."""
    assert list(over({"datasets": {"imdb": {"split": change}}}).experiment.stages["tapt"].data) == [*names, "arxiv"]


@pytest.mark.parametrize(
    ("experiment", "shown", "said"),
    [
        ({"datasets": {"imdb-2": DATASET}}, NAMES, "datasets.imdb: a fold would be called imdb-2, as another is"),
        ({"datasets": {"imdb": {"split": {"folds": 1}}}}, ["imdb"], "split.folds: expected a number from 2 to 100"),
        ({"tokenizers": {"wordpiece": {"corpus": "imdb"}}}, NAMES, "there is no 'imdb'"),
        ({}, ["arxiv"], "mix.pooled: joins folds, but arxiv have none"),
        ({}, NAMES[:2], "joins imdb-1, imdb-2 as imdb, which are not all folds"),
        (OTHER_SEED, ["imdb"], "or differ in settings, models or seeds"),
    ],
)
def test_folds_that_are_refused(experiment, shown, said):
    with pytest.raises(ConfigError, match=said):
        over(experiment, report={"figures": {"mix": POOLED | {"datasets": shown}}})
