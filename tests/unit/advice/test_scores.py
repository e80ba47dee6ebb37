import json

import pytest
from run_records import write_run
from small_studies import study

from lib.advice.scores import PUBLISHED_TOKENS, scores_near
from lib.study.configuration import load_study, read_layers
from lib.workflow.planning.plan import Plan

LOCAL = {"source": "local", "local": {"files": {"train": ["reviews.csv"]}}, "labels": ["no", "yes"]}


@pytest.fixture
def plan(tmp_path):
    """Reviews of 256 tokens, and generated papers."""
    changes = [("datasets/imdb", LOCAL | {"max_tokens": 256})]
    return Plan(study(*changes, layers=[("own.yaml", {"execution": {"results": str(tmp_path)}})]))


def test_published_values_stand_in_where_there_are_no_records(plan):
    scores = scores_near(plan, "finetune", 16_384)
    assert (scores.dataset, scores.max_tokens, scores.source) == ("arxiv", 16_384, "published, 1 seed")
    assert scores.documents == 3339
    assert scores.by_model["lsh-h4-c128"] == 87.40
    assert scores.by_model["tfidf"] == 83.62
    assert len(scores.by_model) == 11  # the grid, the baseline and the hybrid


@pytest.mark.parametrize(
    ("limit", "dataset"),
    [
        (256, "imdb"),
        (1024, "imdb"),
        (2048, "hyperpartisan"),
        (6000, "hyperpartisan"),
        (8192, "arxiv"),
        (32_768, "arxiv"),
    ],
)
def test_the_nearest_length_counts_and_of_two_the_longer(plan, limit, dataset):
    assert scores_near(plan, "finetune", limit).dataset == dataset


@pytest.mark.parametrize("limit", [128, 65_536])
def test_other_lengths_tell_nothing(plan, limit):
    assert scores_near(plan, "finetune", limit) is None


@pytest.mark.parametrize(("limit", "missing"), [(256, {"lsh-h2-c128", "lsh-h4-c128"}), (512, set()), (1024, set())])
def test_a_score_counts_if_the_mechanism_approximates_at_both_lengths_or_at_neither(
    repository, limit, missing, tmp_path
):
    """The published reviews have 512 tokens. Two chunks of 128 tokens are exact attention."""
    layers = read_layers([repository / "config" / "config.yaml"])
    plan = Plan(load_study([*layers, ("own.yaml", {"execution": {"results": str(tmp_path)}})]))
    lsh = {model for model in scores_near(plan, "finetune", 16_384).by_model if model.startswith("lsh")}
    assert lsh - set(scores_near(plan, "finetune", limit).by_model) == missing


def test_own_records_come_before_published_ones(plan, tmp_path):
    for seed, f1 in ((1, 0.90), (2, 0.80)):
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed, test_f1_macro=f1)
        write_run(tmp_path, "finetune", "lsh-h2-c64", "imdb", seed, test_f1_macro=0.7)
    scores = scores_near(plan, "finetune", 512)
    assert scores.max_tokens == 256
    assert scores.by_model == {"sdpa": pytest.approx(85), "lsh-h2-c64": pytest.approx(70)}
    assert scores.source == f"{tmp_path}, 2 seeds"
    assert scores.noise is None  # how many documents they were tested on is not in the record
    assert scores_near(plan, "finetune", 4096).source == "published, 1 seed"


LONGER = {"backbone": "encoder", "mechanism": "sdpa", "max_tokens": 1024}


def plan_of(tmp_path, *changes):
    changes = [("datasets/imdb", LOCAL | {"max_tokens": 256}), *changes]
    return Plan(study(*changes, layers=[("own.yaml", {"execution": {"results": str(tmp_path)}})]))


def test_a_score_is_one_of_the_length_that_the_model_reads(tmp_path):
    plan = plan_of(tmp_path, ("models/sdpa-long", LONGER))
    write_run(tmp_path, "finetune", "sdpa", "imdb", 1, test_f1_macro=0.8)
    write_run(tmp_path, "finetune", "sdpa-long", "imdb", 1, test_f1_macro=0.9)
    near, far = (scores_near(plan, "finetune", limit) for limit in (256, 1024))
    assert (near.max_tokens, near.by_model) == (256, {"sdpa": pytest.approx(80)})
    assert (far.max_tokens, far.by_model) == (1024, {"sdpa-long": pytest.approx(90)})


def test_a_stage_with_variants_has_no_score_here(tmp_path):
    plan = plan_of(tmp_path, ("stages/finetune/variants", {"recipe.epochs": [1, 2]}))
    write_run(tmp_path, "finetune", "sdpa", "imdb", 1, variant={"recipe.epochs": 1}, test_f1_macro=0.5)
    assert scores_near(plan, "finetune", 256).source == "published, 1 seed"


def test_models_are_compared_by_the_seeds_that_all_of_them_have(plan, tmp_path):
    for seed, f1 in ((1, 0.90), (2, 0.60)):
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed, test_f1_macro=f1)
    write_run(tmp_path, "finetune", "lsh-h2-c64", "imdb", 2, test_f1_macro=0.5)
    scores = scores_near(plan, "finetune", 256)
    assert scores.by_model == {"sdpa": pytest.approx(60), "lsh-h2-c64": pytest.approx(50)}
    assert scores.source.endswith("1 seed")
    write_run(tmp_path, "finetune", "favor-m64", "imdb", 1, test_f1_macro=0.7)  # all three have no seed in common
    assert scores_near(plan, "finetune", 256).source == "published, 1 seed"


def test_the_f1_of_characters_is_no_score_of_classes(plan, tmp_path):
    scores = {"test_f1": 0.5, "eval_f1": 0.5, "test_f1_macro": None, "eval_f1_macro": None}
    folder = write_run(tmp_path, "finetune", "sdpa", "imdb", 1)
    record = json.loads((folder / "run.json").read_text())
    record["metrics"] = {name: score for name, score in scores.items() if score}
    (folder / "run.json").write_text(json.dumps(record))
    assert scores_near(plan, "finetune", 256).source == "published, 1 seed"


def test_generated_texts_are_no_evidence(plan, tmp_path):
    write_run(tmp_path, "finetune", "sdpa", "arxiv", 1, test_f1_macro=1.0)
    assert scores_near(plan, "finetune", 128) is None


def test_published_limits_are_those_of_the_grid(repository):
    datasets = load_study(read_layers([repository / "config" / "config.yaml"])).experiment.datasets
    assert {name: dataset.max_tokens for name, dataset in datasets.items()} == PUBLISHED_TOKENS


def test_a_difference_of_one_seed_is_told_from_noise(plan):
    """1.48 points between exact attention and LSH are less than 3,339 papers can show."""
    scores = scores_near(plan, "finetune", 16_384)
    assert scores.by_model["sdpa"] - scores.by_model["lsh-h2-c64"] < scores.noise
    assert scores.by_model["sdpa"] - scores.by_model["favor-m64"] > scores.noise
