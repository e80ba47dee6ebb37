import json
from dataclasses import replace

import pytest
import yaml
from small_studies import SMALL, changed, study

from lib.advice.encoders import published_encoder
from lib.advice.estimates import candidates, find_stages
from lib.advice.preparing import OwnTexts
from lib.advice.question import Question
from lib.advice.studies import OwnStudy, recipe, template
from lib.core.errors import ConfigError
from lib.study.configuration import SHIPPED, load_study, read_layers

STUDIES = ["config.yaml", "small.yaml", "demo.yaml", "demo_recurrent.yaml"]


CHARACTERS = {"unit": "characters", "ngram_max": 3}


def texts(*, labelled=True):
    if labelled:
        settings = {"text": "body", "label": "class", "labels": ["no", "yes"]}
        return OwnTexts(settings, {"train": 800, "validation": 100, "test": 100}, ["text"], {"no": 600, "yes": 400})
    return OwnTexts({"text": "body"}, {"train": 900, "held_out": 100}, ["text"])


def own_study(*, labelled=True, limit=1024, ngrams=None, **changes):
    return OwnStudy(
        question=Question("the study", **{"texts": ["texts/*.csv"]} | changes),
        own=texts(labelled=labelled),
        limit=limit,
        execution={"results": "results/mine", "training": {"device": "cpu"}},
        precision="fp32",
        ngrams=ngrams or {},
    )


def of_model(layers, model="favor-m64", **changes):
    """The study that trains a model of another study, read as a user would read it."""
    body = own_study(**changes).of_model(layers, find_stages(load_study(layers).graph), model)
    return load_study([("texts.yaml", yaml.safe_load(body))])


def written(repository, name, **changes):
    return of_model(read_layers([repository / "config" / name]), **changes)


def of_encoder(encoder, **changes):
    return load_study([("texts.yaml", yaml.safe_load(own_study(**changes).of_encoder(encoder)))])


@pytest.mark.parametrize("name", STUDIES)
def test_the_file_runs_one_model_on_labelled_texts(repository, name):
    made = written(repository, name)
    experiment = made.experiment
    assert list(experiment.models) == ["tfidf", "favor-m64"]
    assert list(experiment.mechanisms) == ["favor-m64"]
    assert list(experiment.datasets) == ["texts"]
    own = experiment.datasets["texts"]
    assert (own.text, own.label, own.labels, own.max_tokens) == ("body", "class", ["no", "yes"], 1024)
    assert own.local.files == {"train": ["texts/*.csv"]}
    assert {stage: list(section.data) for stage, section in experiment.stages.items()} == {
        "pretrain": ["wikipedia"],
        "tapt": ["texts"],
        "finetune": ["texts"],
    }
    assert experiment.precision == "fp32"
    assert made.execution.results == "results/mine"
    assert made.report.published is None
    assert made.report.title == "Models on *.csv"


def test_a_model_keeps_every_mechanism_of_its_list():
    held = {"backbone": "encoder", "mechanism": ["favor-m64", "sdpa"]}
    experiment = of_model([("small.yaml", changed(SMALL, ("experiment/models/hybrid", held)))], "hybrid").experiment
    assert list(experiment.mechanisms) == ["sdpa", "favor-m64"]
    assert list(experiment.models) == ["tfidf", "hybrid"]


@pytest.mark.parametrize(("ngrams", "expected"), [({}, ("words", 2)), (CHARACTERS, ("characters", 3))])
def test_the_baseline_counts_what_the_texts_have(repository, ngrams, expected):
    made = written(repository, "demo.yaml", ngrams=ngrams)
    tfidf = made.experiment.backbones["tfidf"]
    assert (tfidf.unit, tfidf.ngram_max) == expected
    assert (tfidf.C, tfidf.class_weight) == ("validation", "validation")  # that of the grid is for more documents


@pytest.mark.parametrize("name", STUDIES)
def test_texts_without_labels_are_only_adapted_to(repository, name):
    made = written(repository, name, labelled=False)
    experiment = made.experiment
    assert list(experiment.models) == ["favor-m64"]
    assert not experiment.datasets
    own = experiment.corpora["texts"]
    assert (own.short.articles, own.long.articles, own.held_out.articles) == (0, 900, 100)
    assert own.max_tokens == own.held_out.max_tokens == 1024
    assert list(experiment.stages) == ["pretrain", "tapt"]
    assert list(experiment.stages["tapt"].data) == ["texts"]


def test_recipes_are_those_of_the_nearest_length(repository):
    grid = load_study(read_layers([repository / "config" / "config.yaml"])).graph
    assert [template(grid, "finetune", limit) for limit in (512, 1024, 4096, 16_384)] == [
        "imdb", "imdb", "hyperpartisan", "arxiv",
    ]  # fmt: skip
    assert recipe(grid, "tapt", 512).epochs == 15
    made = written(repository, "config.yaml", limit=16_384)
    assert (
        made.experiment.stages["finetune"].data["texts"].recipe
        == grid.experiment.stages["finetune"].data["arxiv"].recipe
    )
    assert made.experiment.stages["tapt"].data["texts"].recipe.batch_size == 2


def test_a_vocabulary_of_the_user_is_named(repository):
    made = written(repository, "config.yaml", vocabulary="vocab.txt")
    assert made.experiment.tokenizers["wordpiece"].source == "local"
    assert made.experiment.tokenizers["wordpiece"].path == "vocab.txt"


def test_stages_that_are_left_out_are_not_skipped_either():
    """A stage after the classification has no work on these texts."""
    again = {"start": "finetune", "task": {"kind": "sequence_classification"}, "data": {"imdb": {}}}
    own = changed(SMALL, ("experiment/stages/again", again), ("experiment/models/favor-m64/skip", ["again"]))
    made = of_model([("small.yaml", own)])
    assert list(made.experiment.stages) == ["pretrain", "tapt", "finetune"]
    assert made.experiment.models["favor-m64"].skip == []


def test_a_corpus_of_the_same_name_is_an_error():
    corpora = {"texts": SMALL["experiment"]["corpora"]["wikipedia"]} | SMALL["experiment"]["corpora"]
    with pytest.raises(ConfigError, match="the study has texts called 'texts'"):
        of_model(
            [
                (
                    "small.yaml",
                    changed(
                        SMALL, ("experiment/corpora", corpora), ("experiment/tokenizers/wordpiece/corpus", "wikipedia")
                    ),
                )
            ]
        )


def test_a_study_without_both_stages_is_an_error():
    toy = load_study(read_layers([SHIPPED["toy.yaml"]]))
    with pytest.raises(ConfigError, match="sequence_classification.*masked_lm"):
        find_stages(toy.graph)


def test_only_models_on_tokens_are_compared():
    graph = study().graph
    assert candidates(graph, find_stages(graph)) == ["sdpa", "lsh-h2-c64", "favor-m64"]


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("name", STUDIES)
def test_a_pretraining_that_exists_is_taken_and_the_report_follows(repository, name, labelled):
    """The file loads although tables and figures of the study name the stage that goes."""
    made = written(repository, name, weights="elsewhere/model", labelled=labelled)
    stages = list(made.experiment.stages)
    assert stages == (["tapt", "finetune"] if labelled else ["tapt"])
    assert made.experiment.models["favor-m64"].start.folder == "elsewhere/model"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["mine/reviews.csv"], "Models on reviews.csv"),
        (["reviews.csv", "others.csv", "news/*.xml"], "Models on reviews.csv and 2 more"),
        (["two\nlines.csv"], "Models on two lines.csv"),
        (["x" * 250 + ".csv"], f"Models on {'x' * 49}…{'x' * 45}.csv"),
    ],
)
@pytest.mark.parametrize("labelled", [True, False])
def test_the_title_of_the_report_names_the_file_of_the_texts(repository, files, expected, labelled):
    encoder = published_encoder(labelled=labelled, multilingual=False)
    assert of_encoder(encoder, labelled=labelled, texts=files).report.title == expected
    assert written(repository, "config.yaml", labelled=labelled, texts=files).report.title == expected


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("multilingual", [True, False])
def test_the_study_of_a_published_encoder_loads(labelled, multilingual):
    encoder = published_encoder(labelled=labelled, multilingual=multilingual)
    made = of_encoder(encoder, labelled=labelled, limit=16_384, ngrams=CHARACTERS)
    experiment = made.experiment
    segments = f"{encoder.name}-segments"
    assert list(experiment.models) == (["tfidf", encoder.name, segments] if labelled else [encoder.name])
    if labelled:
        assert experiment.backbones["tfidf"].unit == "characters"
        assert experiment.datasets["texts"].max_tokens == 16_384
        assert experiment.models[encoder.name].max_tokens == 512
        assert experiment.backbones[segments].segment == 512
        assert made.report.opens_with == ["answer"]
    else:
        assert experiment.corpora["texts"].long.max_tokens == 512
    assert encoder.title == {
        (True, False): "sentence-transformers/all-MiniLM-L6-v2",
        (False, False): "google-bert/bert-base-uncased",
    }.get((labelled, multilingual), "FacebookAI/xlm-roberta-base")


def test_an_encoder_at_hand_is_taken_with_its_own_reach(tmp_path):
    fields = {"model_type": "roberta", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    fields |= {"num_attention_heads": 2, "max_position_embeddings": 1026, "architectures": ["RobertaModel"]}
    folder = tmp_path / "my encoder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(fields))
    found = published_encoder(labelled=True, multilingual=True, folder=str(folder))
    assert (found.name, found.reach, found.title) == ("my-encoder", 1024, str(folder))
    (folder / "config.json").write_text(json.dumps(fields | {"model_type": "clip"}))
    with pytest.raises(ConfigError, match=r"config\.json: .*'clip'"):
        published_encoder(labelled=True, multilingual=False, folder=str(folder))


def test_a_baseline_that_finds_nothing_to_count_is_left_out():
    own = replace(own_study(limit=512), ngrams=None)
    body = own.of_encoder(published_encoder(labelled=True, multilingual=False))
    made = load_study([("texts.yaml", yaml.safe_load(body))])
    assert list(made.experiment.models) == ["minilm"]
    assert list(made.report.tables) == ["f1"]


@pytest.mark.parametrize("name", ["tfidf", ".", "my encoder (2)"])
def test_any_folder_of_an_encoder_names_a_row_of_its_own(tmp_path, name):
    fields = {
        "model_type": "bert",
        "max_position_embeddings": 512,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
    }
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields | {"num_attention_heads": 2}))
    encoder = published_encoder(labelled=True, multilingual=False, folder=str(folder))
    assert list(of_encoder(encoder, limit=512).experiment.models) == ["tfidf", encoder.name]
