import json

import pytest
import yaml

from lib.advice.encoders import published_encoder
from lib.advice.preparing import OwnTexts
from lib.advice.question import Question
from lib.advice.studies import StudySize, advised_study, affordable
from lib.backbones.frozen.settings import EncoderSettings
from lib.core.errors import ConfigError
from lib.study.configuration import load_study

CHARACTERS = {"unit": "characters", "ngram_max": 3}


def texts(*, labelled=True):
    if labelled:
        settings = {"text": "body", "label": "class", "labels": ["no", "yes"]}
        return OwnTexts(settings, {"train": 800, "validation": 100, "test": 100}, ["text"], {"no": 600, "yes": 400})
    return OwnTexts({"text": "body"}, {"train": 900, "held_out": 100}, ["text"])


def of_encoder(encoder, *, labelled=True, limit=1024, ngrams=()):
    """The advised study, read as a user would read it."""
    execution = {"results": "results/mine", "training": {"device": "cpu"}}
    settings = None if ngrams is None else dict(ngrams)
    body = advised_study(
        encoder, Question("the study", ("texts/*.csv",)), texts(labelled=labelled), limit, execution, "fp32", settings
    )
    return load_study([("texts.yaml", yaml.safe_load(body))])


@pytest.mark.parametrize(("labelled", "multilingual"), [(True, False), (False, False), (True, True)])
def test_study_of_a_published_encoder_loads(labelled, multilingual):
    encoder = published_encoder(labelled=labelled, multilingual=multilingual)
    made = of_encoder(encoder, labelled=labelled, limit=16_384, ngrams=CHARACTERS)
    experiment = made.experiment
    segments = f"{encoder.name}-segments"
    assert list(experiment.models) == (["tfidf", encoder.name, segments] if labelled else [encoder.name])
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
        assert made.report.opens_with == ["answer"]
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


def test_baseline_that_finds_nothing_is_left_out():
    made = of_encoder(published_encoder(labelled=True, multilingual=False), limit=512, ngrams=None)
    assert list(made.experiment.models) == ["minilm"]
    assert list(made.report.tables) == ["f1"]
