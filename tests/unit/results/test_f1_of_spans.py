"""Tables and figures of classes, of spans, and of sets of classes on other datasets, whose F1 are other scores."""

import pytest
from run_records import scope_of, write_predictions, write_run, write_sets, write_spans

from lib.results.settings import FIGURES, TABLES

MODELS = ["sdpa", "lsh-h2-c64"]
SHOWN = {
    "stage": {"columns": ["f1"]},
    "significance": {},
    "pareto": {"time": ["spans"]},
    "bars": {"columns": ["f1"]},
    "score_time": {"time": ["spans"]},
}


@pytest.fixture
def folders(tmp_path):
    made = []
    for model in MODELS:
        made.append(write_run(tmp_path, "spans", model, "imdb", test_f1_macro=0.8))
        write_predictions(made[-1], ["no", "yes"], [0, 1] * 5, [0, 1] * 5)
        made.append(write_run(tmp_path, "spans", model, "unlp", test_f1=0.4))
        write_spans(made[-1], [(3, 1, 1), (4, 0, 2), (2, 2, 2)])
        for dataset, average in (("docs", "micro"), ("acts", "macro")):
            scores = {"test_f1_micro": 0.7, "test_f1_macro": 0.5}
            made.append(write_run(tmp_path, "spans", model, dataset, score=f"f1_{average}", **scores))
            write_sets(made[-1], ["a", "b", "c"], [[0], [0, 2], []], [[0], [1], [2]], [[0.5] * 3] * 3)
    return made


@pytest.mark.parametrize("kind", ["bars", "score_time"])
def test_panels_with_f1_of_their_dataset(folders, kind):
    figure = FIGURES.parse({"kind": kind, "stage": "spans", **SHOWN[kind]})
    drawn = figure.draw(scope_of(folders, {"spans": ["imdb", "unlp"]}, MODELS))
    classes, spans = (f"{axes.get_xlabel()} {axes.get_ylabel()}" for axes in drawn.axes)
    assert "F1 [%]" in classes
    assert "F1 of characters [%]" in spans


@pytest.mark.parametrize("kind", ["stage", "significance", "pareto"])
def test_tables_with_f1_of_their_dataset(folders, kind):
    def said(*datasets):
        table = TABLES.parse({"kind": kind, "stage": "spans", **SHOWN[kind]})
        made = table.make(scope_of(folders, {"spans": datasets}, MODELS, reference="sdpa"))
        return " ".join([*(column.label for column in made.columns.values()), made.note or ""])

    assert "characters" not in said("imdb")
    assert "characters" in said("unlp")
    several = said("imdb", "unlp", "docs", "acts")
    others = "F1 (imdb, acts), F1 of characters (unlp), micro-F1 (docs)", "in spans (unlp) and micro-F1 (docs)"
    assert any(name in several for name in others) or ("unlp F1 of char" in several and "docs micro-F1" in several)
    if kind != "stage":
        assert "Classes without a test document: acts (1 of 3). Each counts as 0 in macro-F1." in several
        assert "docs (2 with a label), acts (1 in the rarest class)" in several
