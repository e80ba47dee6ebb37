"""What a study cannot do with pairs of texts, numbers and unlabelled test documents is refused before the first job."""

import copy

import pytest
from small_studies import RECIPE, SMALL

from lib.core.errors import ConfigError
from lib.study.configuration import load_study

LOCAL = {"source": "local", "local": {"files": {part: ["x.csv"] for part in ("train", "validation", "test")}}}
PAIRS = LOCAL | {"text_pair": "other", "labels": ["no", "yes"], "max_tokens": 64, "split": {"published": True}}
NUMBERS = LOCAL | {"text_pair": "other", "label_range": [0, 5], "max_tokens": 64, "split": {"published": True}}


def study(dataset, task="sequence_classification", model=None, report=None, **experiment):
    """Return a study of one model that learns one task of one dataset."""
    values = copy.deepcopy(SMALL)
    values["experiment"] |= {
        "datasets": {"imdb": dataset},
        "stages": {
            "finetune": {
                "task": {"kind": task} if isinstance(task, str) else task,
                "recipe": RECIPE,
                "data": {"imdb": {}},
            }
        },
        "models": {"row": model or {"backbone": "encoder", "mechanism": "sdpa"}},
    }
    for section, entries in experiment.items():
        values["experiment"][section] = values["experiment"][section] | entries
    return load_study([("pairs.yaml", values | {"report": report or {}})])


def refused(*arguments, **named):
    with pytest.raises(ConfigError) as error:
        study(*arguments, **named)
    return str(error.value)


def test_pairs_and_numbers_give_runs():
    (run, *_) = study(PAIRS).runs
    assert '"labels": ["no", "yes"]' in run.settings
    assert len(study(PAIRS | {"pairs": "separately"}, "pair_classification").runs) == 2
    assert len(study(PAIRS, model={"backbone": "tfidf"}).runs) == 2
    (run, *_) = study(NUMBERS, "regression").runs
    assert '"labels"' not in run.settings


@pytest.mark.parametrize(
    ("dataset", "task", "said"),
    [
        (PAIRS, "pair_classification", "pairs read separately"),
        (PAIRS | {"pairs": "separately"}, "sequence_classification", "pairs read separately"),
        (NUMBERS, "sequence_classification", "needs a class per document, but imdb has a number"),
        (PAIRS, "regression", "needs a number per document, but imdb has a class"),
    ],
)
def test_task_that_does_not_fit_pairs_is_refused(dataset, task, said):
    assert said in refused(dataset, task)


def test_tokeniser_without_separator_reads_no_pairs():
    tokenizers = {"wordpiece": {"source": "trained", "vocab_size": 500, "enclose": False}}
    assert "tokenizers.wordpiece.enclose" in refused(PAIRS, tokenizers=tokenizers)
    study(PAIRS | {"pairs": "separately"}, "pair_classification", tokenizers=tokenizers)
