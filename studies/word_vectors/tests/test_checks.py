"""Word vectors in a study: who names them, and what is refused before the first job."""

import re

import pytest
from small_studies import study

from lib.core.errors import ConfigError
from lib.core.weights import WordVectorsStart

VECTORS = ("word_vectors/film", {"source": "trained", "corpus": "imdb", "dimension": 64})
MEAN = ("backbones/mean", {"kind": "word_vectors", "vectors": "film"})
LSTM = ("backbones/lstm", {"kind": "recurrent", "hidden_size": 64})
STARTED = ("models/lstm", {"backbone": "lstm", "start": {"word_vectors": "film"}})
MEAN_MODEL = ("models/mean", {"backbone": "mean", "skip": ["pretrain", "tapt"]})
WHOLE = (VECTORS, MEAN, LSTM, STARTED, MEAN_MODEL)


def report(**tables):
    return [("report.yaml", {"report": {"tables": tables}})]


def test_a_study_names_vectors_in_a_baseline_a_start_and_a_table():
    made = study(*WHOLE, layers=report(a={"kind": "analogies"}, n={"kind": "nearest_words", "words": ["king"]}))
    runs = {(run.id.stage, run.id.model): run for run in made.runs}
    assert runs["pretrain", "lstm"].start == WordVectorsStart(word_vectors="film")
    assert runs["finetune", "mean"].backbone.word_vectors == "film"
    assert not runs["finetune", "mean"].trains


def test_later_stages_start_from_the_run_before_and_not_from_vectors():
    runs = {(run.id.stage, run.id.model): run for run in study(*WHOLE).runs}
    assert runs["tapt", "lstm"].start is None
    assert runs["tapt", "lstm"].parent.stage == "pretrain"


def test_a_start_from_vectors_makes_runs_of_its_own():
    made = study(*WHOLE, ("models/plain", {"backbone": "lstm"}))
    assert made.graph.owner("plain", "pretrain", "wikipedia") == "plain"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [("word_vectors/film/corpus", "films")],
            "word_vectors.film.corpus: there is no 'films'. Known: wikipedia, imdb",
        ),
        ([("backbones/mean/vectors", "none")], "backbones.mean.vectors: there is no 'none'. Known: film"),
        (
            [("models/lstm/start", {"word_vectors": "none"})],
            "models.lstm.start.word_vectors: there is no 'none'. Known",
        ),
        (
            [("backbones/lstm/hidden_size", 32)],
            "models.lstm.start.word_vectors: film has 64 dimensions, but the embeddings have 32",
        ),
        (
            [("models/sdpa/start", {"word_vectors": "film"})],
            "models.sdpa.start.word_vectors: a backbone of kind encoder starts from none",
        ),
        ([("models/lstm/start", {"word_vectors": "film", "folder": "a"})], "models.lstm.start.*folder"),
        (
            [("models/lstm/skip", ["pretrain", "tapt"]), ("stages/finetune/recipe", None)],
            "so a trained model is needed, but the weights are random",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ConfigError, match=re.escape(message) if ".*" not in message else message):
        study(*WHOLE, *changes)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "analogies", "word_vectors": ["none"]}, "tables.a.word_vectors: there is no 'none'. Known: film"),
    ],
)
def test_what_a_table_cannot_show_is_refused(table, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        study(*WHOLE, layers=report(a=table))


def test_a_table_of_vectors_needs_some():
    with pytest.raises(ConfigError, match="tables.a:.*experiment.word_vectors"):
        study(layers=report(a={"kind": "analogies"}))


def test_the_corpus_may_be_left_out_where_there_is_one():
    assert study(VECTORS, ("word_vectors/film/corpus", None)).experiment.word_vectors["film"].corpora == []
    more = {"source": "generated", "generated": {"documents": 10, "generator": "wikipedia"}}
    more |= {part: {"articles": 1, "max_tokens": 64} for part in ("short", "long", "held_out")}
    with pytest.raises(ConfigError, match="word_vectors.film.corpus: missing"):
        study(
            VECTORS, ("word_vectors/film/corpus", None), ("corpora/more", more), ("tokenizers/wordpiece/corpus", "more")
        )
