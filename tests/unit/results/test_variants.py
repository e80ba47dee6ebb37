"""Which variant of a search is the best, and how runs are told apart by variant and by seed."""

import pytest
from run_records import write_run

from lib.core.errors import DataError
from lib.core.search_space import variant_name
from lib.results.quantities import quantity
from lib.results.scope import Scope, scope
from lib.results.variants import best_settings, variant_scores

VARIANTS = [{"recipe.freeze_layers": layers} for layers in (2, 0, 1)]
FIELDS = {
    "models": ["sdpa"],
    "stages": [["search", ["imdb"]]],
    "owners": {"search": {"sdpa": {"imdb": "sdpa"}}},
    "variants": {"search": [[["recipe.freeze_layers", layers]] for layers in (2, 0, 1)]},
}


def write(root, scores):
    """Write a run per variant and seed with the given macro-F1 on validation; return their records."""
    return [
        write_run(root, "search", "sdpa", "imdb", seed, variant=variant, eval_f1_macro=score) / "run.json"
        for variant, row in zip(VARIANTS, scores, strict=True)
        for seed, score in enumerate(row)
    ]


def test_best_by_mean(tmp_path):
    files = write(tmp_path, [(0.95, 0.70), (0.84, 0.83), (0.80, 0.85)])
    assert best_settings(scope(FIELDS, files)) == {"recipe.freeze_layers": 0}


def test_best_of_equal_means(tmp_path):
    # 0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last digit.
    files = write(tmp_path, [(0.3, 0.2, 0.1), (0.1, 0.2, 0.3), (0.1, 0.1, 0.1)])
    assert best_settings(scope(FIELDS, files)) == {"recipe.freeze_layers": 2}
    assert best_settings(scope(FIELDS, files[::-1])) == {"recipe.freeze_layers": 2}


def test_variant_scores_in_order(tmp_path):
    found = variant_scores(
        scope(FIELDS, write(tmp_path, [(0.90, 0.94), (0.84, 0.84), (0.80, 0.85)])), "search", quantity("validation_f1")
    )
    assert found.index.get_level_values("variant").tolist() == list(map(variant_name, VARIANTS))
    assert found["mean"].tolist() == pytest.approx([92, 84, 82.5])
    assert found["std"].tolist() == pytest.approx([2.8284, 0, 3.5355], abs=1e-4)
    assert found["best"].tolist() == [True, False, False]


def test_variant_or_score_missing(tmp_path):
    files = write(tmp_path, [(0.9,), (0.8,), (0.7,)])
    with pytest.raises(DataError, match="search/sdpa/imdb/freeze_layers-1/seed-0"):
        best_settings(scope(FIELDS, files[:2]))
    write_run(tmp_path, "search", "sdpa", "imdb", variant=VARIANTS[1], eval_f1_macro=None)
    with pytest.raises(DataError, match="search/sdpa/imdb/freeze_layers-0/seed-0.*eval_f1_macro"):
        best_settings(scope(FIELDS, files))


def test_variant_no_longer_searched(tmp_path):
    files = write(tmp_path, [(0.9,), (0.8,), (0.7,)])
    files.append(
        write_run(tmp_path, "search", "sdpa", "imdb", variant={"recipe.epochs": 9}, eval_f1_macro=1.0) / "run.json"
    )
    assert best_settings(scope(FIELDS, files)) == {"recipe.freeze_layers": 2}


def totals(root, tapt_seeds, finetune_seeds):
    runs = [write_run(root, "tapt", "sdpa", "imdb", seed, seconds=100.0 + seed) for seed in tapt_seeds]
    runs += [write_run(root, "finetune", "sdpa", "imdb", seed, seconds=10.0) for seed in finetune_seeds]
    owners = {stage: {"sdpa": {"imdb": "sdpa"}} for stage in ("tapt", "finetune")}
    made = Scope(["sdpa"], {stage: ["imdb"] for stage in owners}, owners, files=[run / "run.json" for run in runs])
    return made.totals("training_seconds", ["tapt", "finetune"], ["sdpa"], "sum", "finetune")


def test_totals_from_the_start(tmp_path):
    assert totals(tmp_path / "own", [1, 2], [1, 2]).to_dict() == {("imdb", "sdpa", 1): 111, ("imdb", "sdpa", 2): 112}
    assert totals(tmp_path / "first", [7, 2], [1, 2]).to_dict() == {("imdb", "sdpa", 1): 117, ("imdb", "sdpa", 2): 112}
    assert totals(tmp_path / "fewer", [1, 2], [2]).to_dict() == {("imdb", "sdpa", 2): 112}
