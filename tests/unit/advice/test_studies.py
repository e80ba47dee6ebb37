import json
from dataclasses import replace

import pytest
import yaml

from lib.advice.encoders import published_encoder
from lib.advice.preparing import OwnTexts
from lib.advice.question import Question
from lib.advice.studies import StudySize, advised_study, affordable
from lib.core.errors import ConfigError
from lib.core.weights import EncoderSettings
from lib.study.configuration import load_study

CHARACTERS = {"unit": "characters", "ngram_max": 3}


def texts(*, labelled=True):
    if labelled:
        settings = {"text": "body", "label": "class", "labels": ["no", "yes"]}
        return OwnTexts(settings, {"train": 800, "validation": 100, "test": 100}, ["text"], {"no": 600, "yes": 400})
    return OwnTexts({"text": "body"}, {"train": 900, "held_out": 100}, ["text"])


def of_encoder(encoder, *, labelled=True, limit=1024, ngrams=(), **size):
    """The advised study, read as a user would read it."""
    execution = {"results": "results/mine", "training": {"device": "cpu"}}
    settings = None if ngrams is None else dict(ngrams)
    own, question = texts(labelled=labelled), Question("the study", ("texts/*.csv",))
    readers = {encoder.name: EncoderSettings(**encoder.reader, max_tokens=1024)} if labelled else {}
    whole = StudySize(limit, own.splits["train"])
    body = advised_study(encoder, readers, question, own, replace(whole, **size), execution, "fp32", settings)
    return load_study([("texts.yaml", yaml.safe_load(body))])


@pytest.mark.parametrize(("labelled", "multilingual"), [(True, False), (False, False), (True, True)])
def test_study_of_a_published_encoder_loads(labelled, multilingual):
    encoder = published_encoder(labelled=labelled, multilingual=multilingual)
    made = of_encoder(encoder, labelled=labelled, limit=16_384, ngrams=CHARACTERS)
    experiment = made.experiment
    segments, frozen = f"{encoder.name}-segments", f"{encoder.name}-frozen"
    assert list(experiment.models) == (["tfidf", frozen, encoder.name, segments] if labelled else [encoder.name])
    assert experiment.precision == "fp32"
    assert made.execution.results == "results/mine"
    assert made.report.title == "Models on *.csv"
    if labelled:
        assert experiment.backbones["tfidf"].unit == "characters"
        own = experiment.datasets["texts"]
        assert (own.text, own.label, own.labels, own.max_tokens) == ("body", "class", ["no", "yes"], 16_384)
        assert own.local.files == {"train": ["texts/*.csv"]}
        assert experiment.models[encoder.name].max_tokens == 512
        assert experiment.backbones[segments].segment == 512
        assert experiment.encoders[encoder.name].repository == encoder.title
        assert made.report.opens_with == ["answer", "f1_intervals", "classes", "errors"]
    else:
        own = experiment.corpora["texts"]
        assert (own.short.articles, own.long.articles, own.held_out.articles) == (0, 900, 100)
        assert own.long.max_tokens == own.held_out.max_tokens == 512
    assert encoder.title == {
        (True, False): "sentence-transformers/all-MiniLM-L6-v2",
        (False, False): "google-bert/bert-base-uncased",
    }.get((labelled, multilingual), "FacebookAI/xlm-roberta-base")


def test_encoder_at_hand_is_taken_with_its_own_reach(tmp_path):
    fields = {"model_type": "roberta", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    fields |= {"num_attention_heads": 2, "max_position_embeddings": 1026, "architectures": ["RobertaModel"]}
    folder = tmp_path / "my encoder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(fields))
    found = published_encoder(labelled=True, multilingual=True, folder=str(folder))
    assert (found.name, found.reach, found.title) == ("my-encoder", 1024, str(folder))
    (folder / "config.json").write_text(json.dumps(fields | {"model_type": "clip"}))
    with pytest.raises(ConfigError, match="my encoder: .*'clip'"):
        published_encoder(labelled=True, multilingual=False, folder=str(folder))


def test_rows_that_a_study_lacks_leave_one_that_loads():
    minilm = published_encoder(labelled=True, multilingual=False)
    made = of_encoder(minilm, limit=512, ngrams=None)
    assert list(made.experiment.models) == ["minilm-frozen", "minilm"]
    assert made.report.baseline is None
    made = of_encoder(minilm, seeds=1, trained=False)
    assert list(made.experiment.models) == ["tfidf", "minilm-frozen"]
    assert (made.report.reference, made.report.analyses) == ("minilm-frozen", {})
    made = of_encoder(minilm, seeds=1, trained=False, frozen=False)
    assert (list(made.experiment.models), list(made.report.tables)) == (["tfidf"], ["f1", "classes", "errors"])


def test_study_of_fewer_documents_draws_them():
    made = of_encoder(published_encoder(labelled=True, multilingual=False), documents=200, seeds=1)
    assert made.experiment.datasets["texts"].split.documents == {"train": 200}
    assert made.experiment.seeds == [1]


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (1000, StudySize(512, 800)),
        (14, StudySize(512, 800, seeds=1)),
        (8, StudySize(256, 800, seeds=1)),
        (1.2, StudySize(64, 400, seeds=1)),
        (0.4, StudySize(512, 800, seeds=1, trained=False)),
        (0.1, StudySize(512, 800, seeds=1, trained=False, frozen=False)),
    ],
)
def test_budget_gives_up_seeds_then_length_then_documents(minutes, expected):
    def seconds(size):
        trainings = size.seeds * size.limit * size.documents / 512 if size.trained else 0
        return trainings + 20 * size.frozen + 1

    assert affordable(StudySize(512, 800), seconds, minutes, labelled=True) == expected
    with pytest.raises(ConfigError, match=r"--minutes 0.01: the least study, TF-IDF alone, takes 0.0 minutes"):
        affordable(StudySize(512, 800), seconds, 0.01, labelled=True)
