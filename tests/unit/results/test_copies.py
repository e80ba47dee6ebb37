"""Seeds of a model that does not train: copies of one evaluation, which are one run wherever scores are shown."""

import numpy as np
import pandas as pd
import pytest
import yaml
from run_records import UNTRAINED, note_predictions, scope_of, write_run

from lib.core.extensions import shipped
from lib.core.record import PREDICTIONS
from lib.results.records import copies_note, load_runs
from lib.results.settings import TABLES

pytestmark = pytest.mark.extensions(*shipped())

LABELS = np.arange(40) % 2
VARIANTS = [{"recipe.epochs": number} for number in (1, 2)]
OF_SCORES = {
    "classes": {"models": ["sdpa"]},
    "groups": {},
    "search": {"spread": True},
    "significance": {},
    "stage": {"columns": ["f1", "accuracy"], "against": ["reference"]},
}
"""Settings of tables that show scores of evaluations: one of each way to count them."""


def evaluation(root, model, seed, wrong, start="a", variant=None, **values):
    """Write a run that errs on its first documents, and is the surer the later they come."""
    predicted = np.where(np.arange(len(LABELS)) < wrong, 1 - LABELS, LABELS)
    accuracy = float((predicted == LABELS).mean())
    scores = {f"{split}_{name}": accuracy for split in ("test", "eval") for name in ("f1_macro", "accuracy")}
    parents = {"start": {"path": "model", "digest": start}} if start else {}
    fields = UNTRAINED | {"parents": parents, "variant": variant or {}} | scores | values
    folder = write_run(root, "finetune", model, "imdb", seed, **fields)
    sure = 0.6 + 0.3 * np.arange(len(LABELS)) / len(LABELS)
    rows = pd.DataFrame({"id": range(len(LABELS)), "label": LABELS, "prediction": predicted, "group": LABELS // 2})
    rows["probabilities"] = [[1 - p, p] if each else [p, 1 - p] for each, p in zip(predicted, sure, strict=True)]
    both = [rows.assign(split=split) for split in ("validation", "test")]
    pd.concat(both, ignore_index=True).to_parquet(folder / PREDICTIONS, index=False)
    (folder / "config.yaml").write_text(yaml.safe_dump({"labels": ["no", "yes"]}))
    return note_predictions(folder)


def evaluations(root, kind, errors):
    """Runs of two models, each evaluated as often as there are numbers of errors; with two variants in a search."""
    variants = VARIANTS if kind == "search" else [{}]
    return [
        evaluation(root, model, seed, wrong + more, f"{model}{wrong}", variant)
        for model, more in (("sdpa", 0), ("gru", 8))
        for variant in variants
        for seed, wrong in enumerate(errors)
    ]


def shown(kind, folders):
    fields = {"reference": "sdpa"} if kind in ("significance", "stage") else {}
    fields |= {"variants": {"finetune": VARIANTS}} if kind == "search" else {}
    fields |= {"groups": {"imdb": "length"}} if kind == "groups" else {}
    return scope_of(folders, {"finetune": ["imdb"]}, ["sdpa"] if kind == "classes" else ["sdpa", "gru"], **fields)


def made(root, kind, errors):
    settings = TABLES.parse({"kind": kind, "stage": "finetune", **OF_SCORES[kind]})
    return settings.make(shown(kind, evaluations(root, kind, errors)))


@pytest.mark.extended
@pytest.mark.parametrize("kind", OF_SCORES)
def test_tables_with_copies_of_an_evaluation(tmp_path, kind):
    """Pretrained with two seeds, evaluated with three, the last of which starts from the first one's weights."""
    two, three = made(tmp_path / "two", kind, [4, 9]), made(tmp_path / "three", kind, [4, 9, 4])
    assert three.to_csv() == two.to_csv()


@pytest.mark.parametrize(
    ("starts", "errors", "values", "runs"),
    [
        ("aaa", [4, 4, 4], {}, 1),
        ("aab", [4, 4, 4], {}, 2),  # other weights that predict the same
        ("aaa", [4, 5, 4], {}, 2),  # a mechanism that draws by the seed
        ([None] * 3, [4, 4, 4], {}, 1),  # TF-IDF, which draws nothing
        ("aaa", [4, 4, 4], {"epochs": 2}, 3),
    ],
)
def test_copies_by_start_and_predictions(tmp_path, starts, errors, values, runs):
    given = zip(starts, errors, strict=True)
    folders = [evaluation(tmp_path, "sdpa", seed, wrong, start, **values) for seed, (start, wrong) in enumerate(given)]
    assert load_runs(folders)["original"].nunique() == runs
    note = copies_note([folder / "run.json" for folder in folders])
    said = f"Seeds that repeat one evaluation count once: sdpa on imdb ({runs} of 3 seeds)."
    assert note == (said if runs < 3 else None)
