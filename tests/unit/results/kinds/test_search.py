from run_records import scope_of, write_run

from lib.results.kinds.search import SearchTable
from lib.results.settings import TABLES

VARIANTS = [
    {"task.classifier_pooling": pooling, "recipe.freeze_layers": layers}
    for pooling in ("cls", "mean")
    for layers in (0, 1)
]
SCORES = {"imdb": [0.90, 0.91, 0.93, 0.92], "arxiv": [0.80, 0.84, 0.80, 0.84]}


def search(root):
    """Return the scope of a search with one seed."""
    runs = [
        write_run(root, "search", "sdpa", dataset, variant=variant, eval_f1_macro=score)
        for dataset, row in SCORES.items()
        for variant, score in zip(VARIANTS, row, strict=True)
    ]
    return scope_of(runs, {"search": list(SCORES)}, ["sdpa"], variants={"search": VARIANTS})


def test_bold_of_equal_ones(tmp_path):
    made = SearchTable(kind="search", stage="search").make(search(tmp_path))
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
