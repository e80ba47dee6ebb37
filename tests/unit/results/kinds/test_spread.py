from run_records import UNTRAINED, scope_of, write_baseline, write_run

from lib.results.settings import TABLES

STAGES = {"finetune": ["imdb"]}


def test_the_greatest_and_the_least_seed(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, test_f1_macro=score, test_accuracy=score / 2)
        for seed, score in ((42, 0.9358), (123, 0.9346), (420, 0.935))
    ]
    folders += [write_baseline(tmp_path, "imdb", 0.895, seed=seed) for seed in (42, 123, 420)]
    settings = TABLES.parse({"kind": "spread", "stage": "finetune"})
    table = settings.make(scope_of(folders, STAGES, ["tfidf", "sdpa"]))
    assert table.to_csv() == (
        "model,maximum,minimum,difference,seeds\ntfidf,89.50,89.50,0.00,3\nsdpa,93.58,93.46,0.12,3\n"
    )
    labels = [column.label for column in table.columns.values()]
    assert labels == ["greatest F1 [%]", "least F1 [%]", "F1 difference [points]", "seeds"]
    accuracy = TABLES.parse({"kind": "spread", "stage": "finetune", "column": "accuracy"})
    assert accuracy.make(scope_of(folders[:3], STAGES, ["sdpa"])).to_csv().splitlines()[1] == "sdpa,46.79,46.73,0.06,3"


def test_one_seed_has_no_spread(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", test_f1_macro=0.9)]
    settings = TABLES.parse({"kind": "spread", "stage": "finetune"})
    assert settings.make(scope_of(folders, STAGES, ["sdpa"])).to_csv().splitlines()[1] == "sdpa,90.00,90.00,,1"


def test_variants_are_rows_with_their_settings_as_a_study_spells_them(tmp_path):
    variants = [{"recipe.max_grad_norm": None, "task.maximum": 1}, {"recipe.max_grad_norm": 1.0, "task.maximum": 1}]
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, variant=variant, test_f1_macro=0.5 + seed / 10)
        for variant in variants
        for seed in (0, 1)
    ]
    settings = TABLES.parse({"kind": "spread", "stage": "finetune"})
    table = settings.make(scope_of(folders, STAGES, ["sdpa"], variants={"finetune": variants}))
    assert table.to_csv() == (
        "model,max_grad_norm,task.maximum,maximum,minimum,difference,seeds\n"
        "sdpa,null,1,60.00,50.00,10.00,2\nsdpa,1.0,1,60.00,50.00,10.00,2\n"
    )


def test_copies_of_one_evaluation_are_one_run(tmp_path):
    """Three seeds of a model that does not train, from the same weights."""
    start = {"start": {"path": "finetuned", "digest": "1"}}
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed, test_f1_macro=0.8, parents=start, **UNTRAINED)
        for seed in range(3)
    ]
    shown = scope_of(folders, STAGES, ["sdpa"])
    assert (
        TABLES.parse({"kind": "spread", "stage": "finetune"}).make(shown).to_csv().splitlines()[1]
        == "sdpa,80.00,80.00,,1"
    )
    stage = TABLES.parse({"kind": "stage", "stage": "finetune", "columns": ["f1"]}).make(shown)
    assert "80.00 |" in stage.to_markdown()
