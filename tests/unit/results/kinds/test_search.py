from io import StringIO

import pandas as pd
from run_records import scope_of, write_run

from lib.results.kinds.search import SearchTable
from lib.results.scope import Scope
from lib.results.settings import TABLES

VARIANTS = [
    {"task.classifier_pooling": pooling, "recipe.freeze_layers": layers}
    for pooling in ("cls", "mean")
    for layers in (0, 1)
]
SCORES = {"imdb": [0.90, 0.91, 0.93, 0.92], "arxiv": [0.80, 0.84, 0.80, 0.84]}


def search(root, models=("sdpa",), scores=SCORES, seeds=(0,), metric="eval_f1_macro"):
    """Return the scope of a search, each seed and each further model 0.02 above the one before."""
    runs = [
        write_run(root, "search", model, dataset, seed, variant=variant, **{metric: score + 0.02 * (seed + place)})
        for place, model in enumerate(models)
        for dataset, row in scores.items()
        for variant, score in zip(VARIANTS, row, strict=True)
        for seed in seeds
    ]
    owners = {"search": {model: dict.fromkeys(scores, model) for model in models}}
    files = [run / "run.json" for run in runs]
    return Scope(list(models), {"search": list(scores)}, owners, variants={"search": VARIANTS}, files=files)


def table(found, **settings):
    return SearchTable(kind="search", stage="search", **settings).make(found)


def test_rows_of_variants(tmp_path):
    read = pd.read_csv(StringIO(table(search(tmp_path)).to_csv()))
    assert read.columns.tolist() == ["classifier_pooling", "freeze_layers", "imdb", "arxiv"]
    assert read["classifier_pooling"].tolist() == ["cls", "cls", "mean", "mean"]
    assert read["freeze_layers"].tolist() == [0, 1, 0, 1]
    assert read["imdb"].tolist() == [90, 91, 93, 92]


def test_bold_of_equal_ones(tmp_path):
    made = table(search(tmp_path))
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made.to_markdown().splitlines()[:6]]
    assert lines[0] == ["classifier pooling", "freeze layers", "imdb validation F1 [%]", "arxiv validation F1 [%]"]
    assert lines[2:] == [
        ["cls", "0", "90.00", "80.00"],
        ["cls", "1", "91.00", "**84.00**"],
        ["mean", "0", "**93.00**", "80.00"],
        ["mean", "1", "92.00", "84.00"],
    ]
    assert r"mean & 0 & \textbf{93.00} & 80.00 \\" in made.to_latex()
    assert r"cls & 1 & 91.00 & \textbf{84.00} \\" in made.to_latex()
    assert "*" not in made.to_csv()


def test_spread_of_seeds(tmp_path):
    read = pd.read_csv(StringIO(table(search(tmp_path, seeds=(0, 1))).to_csv()))
    assert read["imdb"].tolist() == [91, 92, 94, 93]
    assert read["imdb_sd"].tolist() == [1.41] * 4
    assert "**94.00 ± 1.41**" in table(search(tmp_path, seeds=(0, 1))).to_markdown()


def test_greatest_and_least_seed(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, test_f1_macro=score)
        for seed, score in ((42, 0.9358), (123, 0.9346), (420, 0.935))
    ]
    settings = TABLES.parse({"kind": "search", "stage": "finetune", "column": "f1", "spread": True})
    made = settings.make(scope_of(folders, {"finetune": ["imdb"]}, ["sdpa"]))
    assert made.to_csv() == (
        "model,imdb,imdb_sd,imdb_maximum,imdb_minimum,imdb_difference,imdb_seeds\nsdpa,93.51,0.06,93.58,93.46,0.12,3\n"
    )
    assert [column.label for column in made.columns.values()] == [
        "imdb F1 [%]", "imdb greatest F1 [%]", "imdb least F1 [%]", "imdb F1 difference [points]", "imdb seeds"
    ]  # fmt: skip
    one = settings.make(scope_of(folders[:1], {"finetune": ["imdb"]}, ["sdpa"]))
    assert one.to_csv().splitlines()[1] == "sdpa,93.58,93.58,93.58,,1"
