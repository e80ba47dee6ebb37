"""The study's parts in the plan: what writes texts, descriptions of texts, templates, and augmented datasets."""

import json

import pytest
from small_plans import key, plan, reported

from lib.results.scope import scope as read_scope
from lib.workflow.planning.corpora import download_options
from lib.workflow.staleness.digests import reached
from studies.hate_speech.augmentation import planning

pytestmark = pytest.mark.extended

FIRST = "results/runs"
STAGES = ("pretrain", "tapt", "finetune")


T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}


WRITING = [
    ("backbones/t5", {"kind": "encoder_decoder", "architecture": {"model_type": "t5", **T5}}),
    ("models/t5", {"backbone": "t5", "skip": list(STAGES)}),
    (
        "stages/write",
        {
            "task": {"kind": "text_to_text", "prefix": "Sort: ", "targets": ["good", "bad"]},
            "recipe": {"epochs": 2, "learning_rate": 1e-3, "min_lr_ratio": 0.1, "batch_size": 4},
            "models": ["t5"],
            "data": {"imdb": {}},
        },
    ),
]


def test_code_and_time_of_writing(modules_of):
    made, run = plan(*WRITING), key("write", "t5")
    found = modules_of(made, run)
    parts = {"backbone", "configuration", "model", "settings", "hub_weights", "text_to_text"}
    own = {
        name.rpartition(".")[2] for name in found if name.startswith("studies.hate_speech.backbones.encoder_decoder.")
    }
    assert own == parts
    assert {
        "studies.hate_speech.tasks.text_to_text.task",
        "studies.hate_speech.tasks.text_to_text.decoding",
        "studies.hate_speech.tokens.text_to_text",
    } <= found
    assert not any("sequence_classification" in name or "token_classification" in name for name in found)
    settings = json.loads(made.run(run).settings)
    assert settings["task"] | {"prefix": "Sort: ", "targets": ["good", "bad"]} == settings["task"]
    assert settings["backbone"]["architecture"] == {"model_type": "t5", **T5}
    assert made.run(run).reads_tokens
    assert made.run(run).trains
    assert made.run(run).work.task.predicts
    assert made.minutes(made.run(run)) > 0
    others = modules_of(made, key("finetune", "sdpa"))
    assert not any("text_to_text" in name or "encoder_decoder" in name for name in others)


TEXTS = "results/data/{}/texts.parquet"


def test_descriptions_where_shown():
    made = reported(
        tables={
            "texts": {"kind": "texts"},
            "of_imdb": {"kind": "texts", "datasets": ["imdb"]},
            "errors": {"kind": "errors", "stage": "finetune", "models": ["sdpa"]},
        },
        figures={"words": {"kind": "words", "datasets": ["arxiv"]}, "languages": {"kind": "languages"}},
    )
    assert made.report.inputs(made.report.tables["texts"]["scope"]) == [TEXTS.format("imdb"), TEXTS.format("arxiv")]
    assert made.report.inputs(made.report.tables["of_imdb"]["scope"]) == [TEXTS.format("imdb")]
    assert made.report.inputs(made.report.figures["words"]["scope"]) == [TEXTS.format("arxiv")]
    assert made.report.inputs(made.report.tables["errors_arxiv"]["scope"]) == [
        *(f"{FIRST}/finetune/sdpa/arxiv/seed-{seed}/run.json" for seed in (1, 2)),
        TEXTS.format("arxiv"),
    ]
    scope = read_scope(
        made.report.tables["errors_arxiv"]["scope"], made.report.inputs(made.report.tables["errors_arxiv"]["scope"])
    )
    assert scope.descriptions == {"arxiv": TEXTS.format("arxiv")}


AUGMENTATION = {
    "labels": ["yes"],
    "copies": 2,
    "by": ["synonyms", "masked_lm"],
    "synonyms": {"url": {"url": "https://a.org/d/wordnet.zip?x=1", "sha256": "a" * 64}},
    "masked_lm": {"repository": "owner/model", "revision": "b" * 40},
}


def test_plan_after_an_augmentation():
    tokenizer = ("tokenizers/wordpiece", {"source": "trained", "corpus": "imdb", "vocab_size": 500})
    without, made = plan(tokenizer), plan(tokenizer, ("datasets/imdb/augmentation", AUGMENTATION))
    assert made.corpora.documents("imdb", "test") == "results/data/imdb/augmented/test.parquet"
    assert made.data(made.run(key("finetune", "tfidf"))) == {
        split: f"results/data/imdb/augmented/{split}.parquet" for split in ("train", "validation", "test")
    }
    assert made.corpora.tokenizer_sources("wordpiece") == ["results/data/imdb/augmented/train.parquet"]
    assert without.corpora.remote_files == {}
    for name in ("finetune", "tapt"):  # paths and settings of the others stay as they were, and settings of all runs
        assert made.data(made.run(key(name, "sdpa", "arxiv"))) == without.data(without.run(key(name, "sdpa", "arxiv")))
    for run in made.runs:
        assert run.settings == without.run(run.id).settings
        assert made.code(run) == without.code(without.run(run.id))
    imdb = made.experiment.datasets["imdb"], without.experiment.datasets["imdb"]
    assert imdb[0].preparation == imdb[1].preparation


def test_sources_of_an_augmentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = plan(("datasets/imdb/augmentation", AUGMENTATION), ("datasets/arxiv/augmentation", AUGMENTATION))
    ((archive, file),) = made.corpora.remote_files.items()
    assert archive.endswith("/wordnet.zip")
    assert download_options(file) == ["--url", "https://a.org/d/wordnet.zip?x=1", "--sha256", "a" * 64]
    assert planning.sources(made.paths, made.experiment.datasets["imdb"].augmentation) == {
        "synonyms": [f"resources/urls/{archive}"],
        "masked_lm": [f"resources/{kind}/owner/model/{'b' * 40}" for kind in ("models", "tokenizers")],
    }
    local = {"synonyms": {"local": "wordnet"}, "masked_lm": {"folder": "results/runs/a/model"}}
    made = plan(("datasets/imdb/augmentation", AUGMENTATION | local))
    assert planning.sources(made.paths, made.experiment.datasets["imdb"].augmentation) == {
        "synonyms": ["wordnet"],
        "masked_lm": ["results/runs/a/model"],
    }
    assert made.corpora.remote_files == {}


def test_code_of_an_augmentation(monkeypatch):
    named = []
    made = plan(("datasets/imdb/augmentation", AUGMENTATION | {"by": "synonyms"}))
    monkeypatch.setattr(planning, "code_digest", lambda *places: named.append(places))
    planning.code(made.experiment.datasets["imdb"].augmentation)
    definitions = reached(*named[0])
    assert {
        "studies.hate_speech.augmentation.synonyms:Rewriter",
        "studies.hate_speech.augmentation.augmenting:augment_dataset",
    } <= set(definitions)
    assert not [name for name in definitions if name.startswith("studies.hate_speech.augmentation.masked_lm")]
