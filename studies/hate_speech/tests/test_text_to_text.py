"""Classification by writing: settings, scores and predictions by hand-made cases."""

import re

import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset
from pydantic import ValidationError
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import EvalPrediction, PreTrainedTokenizerFast
from transformers.trainer_utils import PredictionOutput

from lib.core.settings import describe
from studies.hate_speech.tasks.text_to_text.settings import Settings
from studies.hate_speech.tasks.text_to_text.task import Task

pytestmark = pytest.mark.extended

NAMES = ["no", "yes"]
TARGETS = ["not so", "yes"]
VOCABULARY = {"<pad>": 0, "</s>": 1, "not": 2, "so": 3, "yes": 4}
NONE = -100


@pytest.fixture
def make():
    core = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>", pad_token="<pad>")

    def task(**options):
        parameters = Settings(kind="text_to_text", targets=TARGETS, **options)
        made = Task(parameters, labels=NAMES, seed=0)
        made.collator(tokenizer)
        made.begin("validation", None)
        return made

    return task


# Of four documents the likelihoods tell 0, 1, 1, 1; what is written is "not so", "yes", "so", "not so".
LABELS = np.array([0, 1, 0, 1])
PROBABILITIES = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.3, 0.7]])
LIKELIHOODS = np.log(PROBABILITIES / 2)  # as if half of all texts were others
WRITTEN = np.array([[2, 3, 1], [4, 1, NONE], [3, 1, NONE], [2, 3, 1]])


def scores(task):
    return task.metrics(EvalPrediction((LIKELIHOODS, WRITTEN), LABELS))


def test_likelihoods_by_hand(make):
    found = scores(make())
    assert found["accuracy"] == 3 / 4
    assert found["f1_macro"] == found["likelihood_f1_macro"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert found["generation_f1_macro"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert found["unparsed"] == 1
    assert found["mean_confidence"] == pytest.approx((0.9 + 0.8 + 0.6 + 0.7) / 4)
    right = np.array([0.9, 0.8, 0.4, 0.7]) / 2
    assert found["loss"] == pytest.approx(-np.log(right).sum() / (3 + 2 + 3 + 2))
    assert {name for name in found if name.endswith("_seconds")} == {"likelihood_seconds", "generation_seconds"}
    assert {type(score) for score in found.values()} == {float}


def test_other_texts_are_wrong(make):
    """Of 0 one is right of two predicted, and one of two; of 1 the only one predicted, one of two."""
    found, other = scores(make(reading="generation")), scores(make())
    assert found["accuracy"] == 2 / 4
    assert found["f1_macro"] == found["generation_f1_macro"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert (found["precision_class_yes"], found["recall_class_yes"]) == (1, 1 / 2)
    assert found["precision_micro"] == pytest.approx(2 / 3)
    same = ("mean_confidence", "mean_entropy", "loss", "likelihood_f1_macro", "unparsed")
    assert {name: found[name] for name in same} == {name: other[name] for name in same}
    assert found.keys() == other.keys()


@pytest.mark.parametrize("reading", ["likelihood", "generation"])
@pytest.mark.parametrize("classes", [2, 5])
def test_more_guesses_are_right(reading, classes):
    """The text that the model writes need not be the likeliest one: with the one right and the other wrong, too."""
    names = [f"class{number}" for number in range(classes)]
    vocabulary = {word: index for index, word in enumerate(["<pad>", "</s>", *names])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>", pad_token="<pad>")
    task = Task(Settings(kind="text_to_text", targets=names, reading=reading), labels=names, seed=0)
    task.collator(tokenizer)
    task.begin("validation", None)
    labels = np.arange(40) % classes
    draws = np.random.default_rng(classes).normal(size=(40, classes))
    right = np.eye(classes)[labels]
    for likelihoods in (draws, draws + 9 * right, draws - 9 * right):
        for written in (labels, (labels + 1) % classes):
            tokens = np.stack([written + 2, np.ones(40, dtype=int)], axis=1)
            found = task.metrics(EvalPrediction((likelihoods, tokens), labels))
            ranked = [found[name] for name in ("accuracy", "top_3_accuracy", "top_5_accuracy") if name in found]
            assert ranked == sorted(ranked), found
            expected = 1 + (classes > 3) + (classes > 5) if reading == "likelihood" else 1
            assert len(ranked) == expected


@pytest.mark.parametrize(("reading", "predicted"), [("likelihood", [0, 1, 1, 1]), ("generation", [0, 1, -1, 0])])
def test_predictions_of_both_readings(reading, predicted, make):
    columns = {"id": list("abcd"), "label": LABELS.tolist(), "group": [7, 7, 8, 8]}
    output = PredictionOutput((LIKELIHOODS, WRITTEN), LABELS, {})
    frame = make(reading=reading).predictions(Dataset(pa.table(columns)), output)
    assert np.stack(frame.pop("probabilities")) == pytest.approx(PROBABILITIES)
    texts = ["not so", "yes", "so", "not so"]
    assert frame.to_dict("list") == {
        "id": list("abcd"),
        "label": LABELS.tolist(),
        "prediction": predicted,
        "generated": texts,
        "group": [7, 7, 8, 8],
    }


@pytest.mark.parametrize(
    ("targets", "message"),
    [(["a", "b", "a "], "two are the same. Give each class a different text"), (["a", " "], "targets: one is empty")],
)
def test_targets_told_apart(targets, message):
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"kind": "text_to_text", "targets": targets})
    assert re.search(message, describe(caught.value))
