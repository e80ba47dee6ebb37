import pytest
from pydantic import ValidationError
from run_records import scope_of, write_baseline, write_run

from lib.core.errors import DataError
from lib.results.settings import TABLES
from lib.results.table import Key

STAGES = {"finetune": ["imdb"]}
EXTRA = {"reference": "sdpa", "baseline": "tfidf"}


def parsed(**values):
    return TABLES.parse({"kind": "difference", "stage": "finetune"} | values)


def test_differences_are_points_with_a_sign_and_none_from_itself(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", test_f1_macro=0.9286)]
    folders += [write_run(tmp_path, "finetune", "favor-m64", "imdb", test_f1_macro=0.9116)]
    folders += [write_baseline(tmp_path, "imdb", 0.895)]
    table = parsed().make(scope_of(folders, STAGES, ["tfidf", "sdpa", "favor-m64"], **EXTRA))
    assert table.to_csv() == (
        "model,imdb,imdb_against_sdpa,imdb_against_tfidf\n"
        "tfidf,89.50,-3.36,\n"
        "sdpa,92.86,,+3.36\n"
        "favor-m64,91.16,-1.70,+1.66\n"
    )
    header, _, first, *_ = table.to_markdown().splitlines()
    assert "| imdb F1 [%] | imdb F1 against sdpa [points] |" in " ".join(header.split()).replace("  ", " ")
    assert [cell.strip() for cell in first.strip("|").split("|")] == ["tfidf", "89.50", "-3.36", "-"]


def test_the_others_need_not_be_rows_and_a_study_may_have_no_baseline(tmp_path):
    folders = [write_run(tmp_path, "finetune", model, "imdb", test_f1_macro=0.5) for model in ("sdpa", "favor-m64")]
    folders += [write_baseline(tmp_path, "imdb", 0.25)]
    assert parsed().make(scope_of(folders, STAGES, ["favor-m64"], **EXTRA)).to_csv() == (
        "model,imdb,imdb_against_sdpa,imdb_against_tfidf\nfavor-m64,50.00,0.00,+25.00\n"
    )
    assert parsed().make(scope_of(folders, STAGES, ["favor-m64"], reference="sdpa")).to_csv() == (
        "model,imdb,imdb_against_sdpa\nfavor-m64,50.00,0.00\n"
    )


def test_differences_over_seeds_are_those_of_paired_runs(tmp_path):
    """Scores of both models move by 10 points from seed to seed; their difference moves by 1 only."""
    scores = {"sdpa": (0.80, 0.90), "favor-m64": (0.79, 0.90)}
    folders = [
        write_run(tmp_path, "finetune", model, "imdb", seed=seed, test_f1_macro=score)
        for model, both in scores.items()
        for seed, score in enumerate(both)
    ]
    frame = parsed().make(scope_of(folders, STAGES, list(scores), reference="sdpa")).frame
    assert frame[Key(("imdb",)).sd].tolist() == pytest.approx([50**0.5, 121**0.5 / 2**0.5])
    assert frame[Key(("imdb", "against", "sdpa"))].tolist()[1] == pytest.approx(-0.5)
    assert frame[Key(("imdb", "against", "sdpa")).sd].tolist()[1] == pytest.approx(0.5**0.5)


def test_datasets_with_one_seed_each_have_no_deviations_though_the_seeds_differ(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", model, dataset, seed=seed, test_f1_macro=0.5)
        for model in ("sdpa", "favor-m64")
        for dataset, seed in (("imdb", 1), ("arxiv", 2))
    ]
    scope = scope_of(folders, {"finetune": ["imdb", "arxiv"]}, ["sdpa", "favor-m64"], reference="sdpa")
    assert parsed().make(scope).to_csv() == (
        "model,imdb,imdb_against_sdpa,arxiv,arxiv_against_sdpa\nsdpa,50.00,,50.00,\nfavor-m64,50.00,0.00,50.00,0.00\n"
    )


def test_several_scores_are_told_apart_and_a_loss_has_no_points(tmp_path):
    folders = [
        write_run(tmp_path, "tapt", model, "imdb", train_loss=loss, eval_loss=loss + 1)
        for model, loss in (("sdpa", 2.0), ("favor-m64", 2.5))
    ]
    table = parsed(stage="tapt", columns=["loss", "eval_loss"]).make(
        scope_of(folders, {"tapt": ["imdb"]}, ["favor-m64"], reference="sdpa"),
    )
    assert table.to_csv().splitlines() == [
        "model,imdb_loss,imdb_loss_against_sdpa,imdb_eval_loss,imdb_eval_loss_against_sdpa",
        "favor-m64,2.500,+0.500,3.5000,+0.5000",
    ]
    assert table.columns[Key(("imdb", "loss", "against", "sdpa"))].label == "imdb loss against sdpa"


def test_costs_are_refused_and_missing_runs_named(tmp_path):
    with pytest.raises(ValidationError, match="columns.*'memory'"):
        parsed(columns=["f1", "memory"])
    folders = [write_run(tmp_path, "finetune", "favor-m64", "imdb")]
    with pytest.raises(DataError, match="finetune/sdpa/imdb/seed-0"):
        parsed().make(scope_of(folders, STAGES, ["favor-m64"], reference="sdpa"))


def test_rows_with_the_runs_of_the_reference_have_no_difference(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", each, test_f1_macro=0.5) for each in ("imdb", "arxiv")]
    folders += [write_run(tmp_path, "finetune", "hybrid", "arxiv", test_f1_macro=0.6)]
    owners = {"finetune": {"sdpa": "sdpa", "hybrid": {"imdb": "sdpa", "arxiv": "hybrid"}}}
    shown = scope_of(folders, {"finetune": ["imdb", "arxiv"]}, ["hybrid"], owners=owners, reference="sdpa")
    assert parsed().make(shown).to_csv() == (
        "model,imdb,imdb_against_sdpa,arxiv,arxiv_against_sdpa\nhybrid,50.00,,60.00,+10.00\n"
    )
