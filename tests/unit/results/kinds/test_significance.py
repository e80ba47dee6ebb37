import numpy as np
import pytest
from run_records import scope_of, write_baseline, write_predictions, write_run, write_spans
from scipy.stats import t as student
from small_studies import SMALL, changed

from lib.results.kinds.significance import SignificanceTable
from lib.study.configuration import load_study
from lib.workflow.planning.plan import Plan

NAMES = ["no", "yes"]
LABELS = np.arange(200) % 2


def wrong_on(*documents):
    predictions = LABELS.copy()
    predictions[list(documents)] = 1 - LABELS[list(documents)]
    return predictions


def write(tmp_path, predictions, dataset="imdb", seed=0):
    return [
        write_predictions(
            write_baseline(tmp_path, dataset, 0.5, seed=seed)
            if model == "tfidf"
            else write_run(tmp_path, "finetune", model, dataset, seed=seed),
            NAMES,
            LABELS,
            predicted,
        )
        for model, predicted in predictions.items()
    ]


def table(folders, models=("tfidf", "sdpa", "favor-m64"), datasets=("imdb",), **fields):
    settings = SignificanceTable(kind="significance", stage="finetune")
    fields = {"reference": "sdpa", "baseline": "tfidf", **fields}
    return settings.make(scope_of(folders, {"finetune": datasets}, models, **fields))


PREDICTIONS = {"tfidf": wrong_on(*range(60)), "sdpa": wrong_on(*range(10)), "favor-m64": wrong_on(*range(12))}
"""As many wrong ones of either class each, so that macro-F1 is the accuracy: 70, 95 and 94 %."""


def test_differences_by_hand(tmp_path):
    """By hand: 2 documents tell favor-m64 and sdpa apart, on one side both: p = 2 / 2^2. The reference stands beside
    the baseline, and not the other way about."""
    frame = table(write(tmp_path, PREDICTIONS)).frame
    columns = ["dataset", "model", "against", "f1_difference", "low", "high", "p", "holm_p", "mcnemar_p", "result"]
    assert frame.columns.tolist() == columns
    assert frame[["dataset", "model", "against", "result"]].to_numpy().tolist() == [
        ["imdb", "sdpa", "tfidf", "better (one seed)"],
        ["imdb", "favor-m64", "sdpa", "no difference shown"],
        ["imdb", "favor-m64", "tfidf", "better (one seed)"],
    ]
    assert frame["f1_difference"].tolist() == pytest.approx([25, -1, 24])
    assert (frame["low"] < frame["f1_difference"]).all()
    assert (frame["f1_difference"] < frame["high"]).all()
    assert frame["mcnemar_p"].tolist() == pytest.approx([2 / 2**50, 0.5, 2 / 2**48])
    for row, part in zip(frame.itertuples(), (0.25, 0.01, 0.24), strict=True):
        error = (part * (1 - part) / 199) ** 0.5  # of a share of 200 documents
        assert row.high - row.f1_difference == pytest.approx(100 * 1.972 * error, rel=0.02)
        assert row.p == pytest.approx(2 * student.sf(part / error, 199), rel=0.25)
    assert frame["holm_p"].tolist() == pytest.approx((frame["p"] * [3, 1, 2]).tolist())


def test_correction_over_all_datasets(tmp_path):
    """6 documents on one side: p = 0.014 is shown alone, and not beside five other comparisons."""
    six = {"tfidf": wrong_on(*range(6)), "sdpa": wrong_on(), "favor-m64": wrong_on()}
    folders = write(tmp_path, six)
    alone = table(folders, models=["sdpa"]).frame.iloc[0]
    assert (alone["holm_p"], alone["result"]) == (alone["p"], "better (one seed)")
    assert 0.05 / 6 < alone["p"] < 0.02
    folders += write(tmp_path, six, "arxiv")
    frame = table(folders, datasets=["imdb", "arxiv"]).frame
    assert frame["dataset"].tolist() == ["imdb"] * 3 + ["arxiv"] * 3
    assert frame["mcnemar_p"].tolist() == pytest.approx([2 / 2**6, 1, 2 / 2**6] * 2)
    assert frame["holm_p"].tolist() == pytest.approx([6 * alone["p"], 1, 6 * alone["p"]] * 2)
    assert set(frame["result"]) == {"no difference shown"}


def test_seeds_of_one_pretraining(tmp_path):
    """Both seeds of 366 documents are 7 and 10 points below, either one shown by McNemar's test alone."""
    start = {"start": {"path": "pretrained", "digest": "1"}}
    folders = []
    for model, wrongs in {"sdpa": (20, 20), "favor-m64": (34, 40)}.items():
        for seed, wrong in enumerate(wrongs):
            folder = write_run(tmp_path, "finetune", model, "imdb", seed=seed, parents=start)
            folders.append(write_predictions(folder, NAMES, LABELS, wrong_on(*range(wrong))))
    made = table(folders, models=["favor-m64"], baseline=None)
    (row,) = made.frame.itertuples()
    assert row.f1_difference == pytest.approx(-8.5)
    assert row.mcnemar_p < 0.001
    assert row.low < -20 < 0 < row.high  # 12.7 of Student's t with one degree of freedom
    assert row.result == "no difference shown"
    assert "The seeds of favor-m64, sdpa start from the same weights" in made.note
    assert "unknown" not in made.note


@pytest.mark.parametrize(("starts", "result"), [("abc", "better"), ("aab", "better (shared start)")])
def test_result_with_shared_starts(tmp_path, starts, result):
    folders = []
    for seed, start in enumerate(starts):
        folders += write(tmp_path, {"tfidf": wrong_on(*range(60))}, seed=seed)
        parents = {"start": {"path": "pretrained", "digest": start}}
        folder = write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, parents=parents)
        folders.append(write_predictions(folder, NAMES, LABELS, wrong_on(*range(8 + 2 * seed))))
    made = table(folders, models=["sdpa"])
    assert made.frame["result"].tolist() == [result]
    assert ("start from the same weights" in made.note) == (result != "better")
    assert "One seed" not in made.note


def with_table(*changes):
    report = {"reference": "sdpa", "tables": {"differences": {"kind": "significance", "stage": "finetune"}}}
    return load_study([("small.yaml", changed(SMALL, ("report", report), *changes))])


@pytest.mark.parametrize("kind", ["significance", "pareto", "score_intervals"])
def test_starts_shared_at_earlier_stages(kind):
    """Every model starts from a pretraining of its seed, adapts, and is fine-tuned; or from one pretraining of all."""
    time = {"time": ["finetune"]} if kind == "pareto" else {}
    results = "figures" if kind == "score_intervals" else "tables"
    of_kind = (f"report/{results}", {"differences": {"kind": kind, "stage": "finetune", **time}})
    scopes = [
        getattr(Plan(with_table(of_kind, ("report/baseline", "tfidf"), *more)).report, results)["differences"]["scope"]
        for more in ([], [("experiment/stages/pretrain/seeds", [1])])
    ]
    assert "one_start" not in scopes[0]
    trained = ["sdpa", "lsh-h2-c64", "favor-m64"]
    assert scopes[1]["one_start"] == {"finetune": {model: ["imdb", "arxiv"] for model in trained}}
    assert scopes[0] == {name: each for name, each in scopes[1].items() if name != "one_start"}


def test_differences_of_spans(tmp_path):
    """Of 40 documents none is right as a whole. Two models find 8 of 10 characters or 6, the baseline 5."""
    found = {"tfidf": [5] * 40, "sdpa": [8, 6] * 20, "favor-m64": [6, 8] * 20}
    folders = [
        write_spans(write_run(tmp_path, "finetune", model, "imdb"), [(each, 0, 10 - each) for each in hits])
        for model, hits in found.items()
    ]
    made = table(folders)
    frame = made.frame
    columns = ["dataset", "model", "against", "f1_difference", "low", "high", "p", "holm_p", "result"]
    assert frame.columns.tolist() == columns
    assert frame["f1_difference"].tolist() == pytest.approx([100 * (14 / 17 - 2 / 3), 0, 100 * (14 / 17 - 2 / 3)])
    assert frame["result"].tolist() == ["better (one seed)", "no difference shown", "better (one seed)"]
    assert frame["p"].tolist() == [pytest.approx(0, abs=1e-6), pytest.approx(1, abs=1e-6), pytest.approx(0, abs=1e-6)]
    assert "F1 of the characters in spans" in made.note
    assert "McNemar" not in made.note
