"""Tables and figures of a model that is not made for all datasets: it has a dash there, or no row or point."""

import pandas as pd
import pytest
from run_records import scope_of, write_baseline, write_predictions, write_run, write_spans

from lib.core.record import HISTORY
from lib.results.settings import FIGURES, TABLES

pytestmark = pytest.mark.extensions("studies/toy")

DATASETS = ["imdb", "arxiv"]
STAGES = dict.fromkeys(("tapt", "finetune"), DATASETS)
MODELS = ["sdpa", "favor-m64", "hybrid"]


@pytest.fixture
def scope(tmp_path):
    """The scope of three models and a baseline, one of which was made for arxiv only."""
    folders = []
    for place, model in enumerate(MODELS):
        for dataset in DATASETS if model != "hybrid" else DATASETS[1:]:
            values = {"seconds": 60.0 * (place + 1), "peak_memory_mb": 1024.0 * (place + 1)}
            folders.append(write_run(tmp_path, "tapt", model, dataset, **values))
            folders.append(write_run(tmp_path, "finetune", model, dataset, test_f1_macro=0.8 - place / 10, **values))
            right = 30 - 5 * place
            write_predictions(
                folders[-1], ["no", "yes"], [0, 1] * 20, [0, 1] * (right // 2) + [1, 0] * (20 - right // 2)
            )
            history = pd.DataFrame({"epoch": [1, 2], "seconds": [30.0, 30.0], "train_loss": [3.0, 2.0 + place]})
            history.to_csv(folders[-1] / HISTORY, index=False)
    for dataset in DATASETS:
        folders.append(write_baseline(tmp_path, dataset, 0.5))
        write_predictions(folders[-1], ["no", "yes"], [0, 1] * 20, [0, 0] * 20)
    every = {model: model for model in [*MODELS, "tfidf"]} | {"hybrid": {"arxiv": "hybrid"}}
    owners = {"tapt": {name: own for name, own in every.items() if name != "tfidf"}, "finetune": every}
    families = {"sdpa": "sdpa", "favor-m64": "favor", "hybrid": "favor"}
    beside = {"reference": "sdpa", "baseline": "tfidf"}
    return scope_of(folders, STAGES, MODELS, owners=owners, families=families, **beside)


def table(scope, **settings):
    """Return a table as text, with a row's name as its index."""
    parameters = TABLES.parse(settings)
    made = parameters.make(scope)
    assert "| hybrid" in made.to_markdown()
    return made


def row(made, model="hybrid"):
    return made.frame.rename(columns=str).set_index("model").loc[model]


@pytest.mark.parametrize("kind", ["bars", "score_time", "score_intervals"])
def test_panels_with_f1_of_their_dataset(tmp_path, kind):
    folders = [
        write_run(tmp_path, "spans", "sdpa", "imdb", test_f1_macro=0.8),
        write_run(tmp_path, "spans", "sdpa", "unlp", test_f1=0.4),
    ]
    write_predictions(folders[0], ["no", "yes"], [0, 1] * 5, [0, 1] * 5)
    write_spans(folders[1], [(3, 1, 1), (4, 0, 2), (2, 2, 2)])
    given = {"bars": {"columns": ["f1"]}, "score_time": {"time": ["spans"]}}.get(kind, {})
    parameters = FIGURES.parse({"kind": kind, "stage": "spans", **given})
    made = scope_of(folders, {"spans": ["imdb", "unlp"]}, ["sdpa"])
    classes, spans = (f"{axes.get_xlabel()} {axes.get_ylabel()}" for axes in parameters.draw(made).axes)
    assert "F1 [%]" in classes
    assert "F1 of characters [%]" in spans


F1_OF_TABLES = {
    "stage": {"columns": ["f1"]},
    "answer": {},
    "significance": {},
    "pareto": {"time": ["spans"]},
    "requirements": {"time": ["spans"]},
}


@pytest.mark.parametrize("kind", F1_OF_TABLES)
def test_tables_with_f1_of_characters(tmp_path, kind):
    """Of classes on one dataset and of characters on another one, these are two scores."""
    folders = []
    for model in ("sdpa", "lsh-h2-c64"):
        folders.append(write_run(tmp_path, "spans", model, "imdb", test_f1_macro=0.8))
        write_predictions(folders[-1], ["no", "yes"], [0, 1] * 5, [0, 1] * 5)
        folders.append(write_run(tmp_path, "spans", model, "unlp", test_f1=0.4))
        write_spans(folders[-1], [(3, 1, 1), (4, 0, 2), (2, 2, 2)])
    parameters = TABLES.parse({"kind": kind, "stage": "spans", **F1_OF_TABLES[kind]})

    def said(*datasets):
        models = ["sdpa", "lsh-h2-c64"]
        table = parameters.make(scope_of(folders, {"spans": datasets}, models, reference="sdpa"))
        return " ".join([*(column.label for column in table.columns.values()), table.note or ""])

    assert "characters" not in said("imdb")
    assert "F1 of characters [%]" in said("unlp") or "F1 of the characters in spans on test" in said("unlp")
    both = said("imdb", "unlp")
    assert any(
        each in both
        for each in (
            "unlp F1 of characters [%]",
            "F1 (of characters: unlp) [%]",
            "F1 of the characters in spans (unlp)",
        )
    )
