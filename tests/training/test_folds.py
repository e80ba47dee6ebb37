"""A study of folds, from its documents to tables of the test documents of all folds."""

import json

import numpy as np
import pandas as pd
import pytest
from expected_statistics import difference_interval
from run_records import note_predictions
from scipy.special import expit, logit
from scipy.stats import t
from sklearn.metrics import f1_score

from lib.core.errors import DataError
from lib.preparing.labelled import prepare_dataset
from lib.results.scope import scope
from lib.results.settings import TABLES
from lib.study.configuration import load_study
from lib.study.run import RunSettings
from lib.training.evaluate import evaluate
from lib.workflow.planning.plan import Plan

SEEDS, MODELS, KINDS = [1, 2, 3], ["words", "pairs"], ("score_intervals", "significance", "classes")


def planned(folder):
    """Return the plan of two baselines on three folds of 61 texts, which are prepared."""
    draw = np.random.default_rng(0)
    texts = [" ".join([f"w{word}" for word in draw.integers(30, size=6)] + ["sign"] * (n % 3)) for n in range(61)]
    pd.DataFrame({"text": texts, "label": np.arange(61) % 3 // 2}).to_csv(folder / "texts.csv", index=False)
    source = {"source": "local", "local": {"files": {"train": [str(folder / "texts.csv")]}}}
    experiment = {
        "seeds": SEEDS,
        "backbones": {"words": {"kind": "tfidf"}, "pairs": {"kind": "tfidf", "min_df": 1}},
        "datasets": {"texts": source | {"labels": ["no", "yes"], "max_tokens": 64, "split": {"folds": 3}}},
        "stages": {"score": {"task": {"kind": "sequence_classification"}, "data": {"texts": {}}}},
        "models": {name: {"backbone": name} for name in MODELS},
    }
    tables = {kind: {"kind": kind, "stage": "score", "pooled": True} for kind in KINDS}
    others = {"report": {"tables": tables, "reference": "words"}, "execution": {"results": str(folder / "results")}}
    plan = Plan(load_study([("folds.yaml", {"experiment": experiment} | others)]))
    for name, dataset in plan.experiment.datasets.items():
        out = plan.report.corpora.documents(name, "test").rpartition("/")[0]
        prepare_dataset(plan.report.corpora.raw_files(name), out, dataset.preparation)
    return plan


@pytest.mark.extended
def test_pooled_tables(tmp_path):
    """Each document counts once, the folds of a seed together, and seeds that repeat one evaluation as one."""
    plan, draw, tested = planned(tmp_path), np.random.default_rng(1), {}
    for run in plan.runs:
        out = tmp_path / plan.paths.folder(run.id)
        evaluate(RunSettings.model_validate(json.loads(run.settings) | {"data": plan.data(run)}), out)
        predicted = pd.read_parquet(out / "predictions.parquet")
        if run.id.model == "words":  # as if it were trained from other seeds
            predicted["prediction"] = (predicted["prediction"] + (draw.random(len(predicted)) < 0.1)) % 2
            predicted.to_parquet(out / "predictions.parquet")
            note_predictions(out)
        tested.setdefault((run.id.model, run.id.seed), []).append(predicted[predicted["split"] == "test"])
    documents = {place: pd.concat(parts).set_index("id").sort_index() for place, parts in tested.items()}
    assert all(len(each) == each.index.nunique() == 61 for each in documents.values())
    labels = documents["words", 1]["label"].to_numpy()
    words, pairs = ([documents[model, seed]["prediction"].to_numpy() for seed in SEEDS] for model in MODELS)
    f1 = 100 * np.array([[f1_score(labels, each, average=None) for each in given] for given in (words, pairs)])
    shown = {name: (TABLES.parse(each["settings"]), each["scope"]) for name, each in plan.report.tables.items()}
    made = {name: table.make(scope(of, plan.report.inputs(of))).frame for name, (table, of) in shown.items()}
    scores, difference = made["score_intervals"], made["significance"].iloc[0]
    assert scores["f1"].tolist() == pytest.approx(f1.mean(axis=(1, 2)))
    assert scores[["dataset", "documents", "seeds"]].to_numpy().tolist() == [["texts", 61, 3], ["texts", 61, 1]]
    without = [f1_score(np.delete(labels, n), np.delete(pairs[0], n), average="macro") for n in range(61)]
    mean, spread = f1[1].mean() / 100, np.sqrt(60 / 61 * np.square(without - np.mean(without)).sum())
    reach = t.ppf(0.975, 60) * spread / (mean * (1 - mean)) * np.array([-1, 1])
    assert scores.loc[1, ["low", "high"]].tolist() == pytest.approx(100 * expit(logit(mean) + reach), abs=1e-9)
    assert made["classes_texts"].loc[:1, ["words_f1", "pairs_f1"]].T.to_numpy() == pytest.approx(f1.mean(axis=1))
    given = (np.eye(2, dtype=bool)[np.array(each)] for each in (labels, pairs, words))
    ends = difference_interval(*given, [slice(0, 1), slice(1, 2)], 0.95)
    assert [difference["low"], difference["high"]] == pytest.approx([100 * end for end in ends])
    table, of = shown["significance"]
    with pytest.raises(DataError, match="some folds of texts alone. Expected all 3"):
        table.make(scope(of, plan.report.inputs(of)[1:]))
