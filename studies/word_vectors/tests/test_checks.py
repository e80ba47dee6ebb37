"""Word vectors in a study: who names them, and what is refused before the first job."""

import re

import pytest
from small_studies import study

from lib.core.errors import ConfigError
from lib.core.weights import WordVectorsStart

pytestmark = pytest.mark.extended

VECTORS = ("word_vectors/film", {"source": "trained", "corpus": "imdb", "dimension": 64})
MEAN = ("backbones/mean", {"kind": "word_vectors", "vectors": "film"})
LSTM = ("backbones/lstm", {"kind": "recurrent", "hidden_size": 64})
STARTED = ("models/lstm", {"backbone": "lstm", "start": {"word_vectors": "film"}})
MEAN_MODEL = ("models/mean", {"backbone": "mean", "skip": ["pretrain", "tapt"]})
WHOLE = (VECTORS, MEAN, LSTM, STARTED, MEAN_MODEL)


def report(**tables):
    return [("report.yaml", {"report": {"tables": tables}})]


def test_vectors_named_in_a_study():
    made = study(*WHOLE, layers=report(a={"kind": "analogies"}, n={"kind": "nearest_words", "words": ["king"]}))
    runs = {(run.id.stage, run.id.model): run for run in made.runs}
    assert runs["pretrain", "lstm"].start == WordVectorsStart(word_vectors="film")
    assert runs["finetune", "mean"].backbone.word_vectors == "film"
    assert not runs["finetune", "mean"].trains


def test_starts_of_later_stages():
    runs = {(run.id.stage, run.id.model): run for run in study(*WHOLE).runs}
    assert runs["tapt", "lstm"].start is None
    assert runs["tapt", "lstm"].parent.stage == "pretrain"


REFUSED = [
    (("word_vectors/film/corpus", "films"), "word_vectors.film.corpus"),
    (("models/lstm/start", {"word_vectors": "none"}), "models.lstm.start.word_vectors"),
    (("backbones/lstm/hidden_size", 32), "film has 64 dimensions"),
    (("models/sdpa/start", {"word_vectors": "film"}), "models.sdpa.start.word_vectors"),
]


@pytest.mark.parametrize(("change", "named"), REFUSED)
def test_study_of_vectors_refused(change, named):
    with pytest.raises(ConfigError, match=re.escape(named)):
        study(*WHOLE, change)


def test_tables_of_vectors_refused():
    with pytest.raises(ConfigError, match=re.escape("tables.a.word_vectors: there is no 'none'. Known: film")):
        study(*WHOLE, layers=report(a={"kind": "analogies", "word_vectors": ["none"]}))
