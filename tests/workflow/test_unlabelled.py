"""Test splits without labels of every kind of label, from a user's own files to predictions and tables."""

import json
import random

import pandas as pd
import pytest
from wordnets import write_wordnet

from lib.core.record import read_record

pytestmark = pytest.mark.study

GOOD, BAD = ["bright", "sweet", "warm"], ["cold", "grim", "sour"]
OTHERS = ["the", "film", "was", "story", "music", "a"]
CLASSES = ["classes", "tags", "spans"]
SIZES = {"train": 80, "validation": 30, "test": 20}
RECIPE = {"epochs": 6, "learning_rate": 1e-2, "min_lr_ratio": 0.1, "batch_size": 16}


def document(generator, number):
    """Return words, of which the third one says the class."""
    words = generator.choices(OTHERS, k=5)
    words[2] = generator.choice(BAD if number % 2 else GOOD)
    return words


def labelled(words, number):
    """Return what each kind of label is of a document."""
    start = len(" ".join(words[:2])) + 1
    return {
        "kind": ["good", "bad"][number % 2],
        "tags": ["special" if word in GOOD + BAD else "usual" for word in words],
        "spans": [[start, start + len(words[2])]],
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    generator = random.Random(1)
    for part, size in SIZES.items():
        rows = []
        for number in range(size):
            words = document(generator, number)
            rows.append({"text": " ".join(words)} | (labelled(words, number) if part != "test" else {}))
        frame = pd.DataFrame(rows)
        frame.to_json(folder / f"{part}.jsonl", orient="records", lines=True)
        frame.to_csv(folder / f"{part}.csv", index=False)
    write_wordnet(folder / "dict", {"noun": [], "verb": [], "adv": [], "adj": [GOOD, BAD]})
    return folder


def study(files):
    def dataset(suffix, **fields):
        parts = {part: [str(files / f"{part}.{suffix}")] for part in SIZES}
        split = {"published": True, "test_labels": False}
        return {"source": "local", "local": {"files": parts}, "split": split, "max_tokens": 12} | fields

    encoder = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    classes, tags = {"label": "kind", "labels": ["good", "bad"]}, {"label": "tags", "labels": ["usual", "special"]}
    spans = {"label": "spans", "label_per": "span", "labels": ["outside", "inside"], "max_tokens": 6}
    augmentation = {"labels": ["bad"], "by": "synonyms", "synonyms": {"local": str(files / "dict")}}
    classify, detect = {"kind": "sequence_classification"}, {"kind": "span_detection"}
    return {
        "extensions": ["studies/hate_speech", "studies/decoders"],
        "experiment": {
            "seeds": [3],
            "precision": "fp32",
            "mechanisms": {"sdpa": {"kind": "sdpa"}},
            "backbones": {
                "encoder": {"kind": "encoder", **encoder, "initializer_range": 0.1},
                "tfidf": {"kind": "tfidf", "min_df": 1},
                "tfidf_spans": {"kind": "tfidf_spans", "min_df": 1},
            },
            "tokenizers": {"pieces": {"source": "trained", "corpus": ["classes"], "vocab_size": 100}},
            "datasets": {
                "classes": dataset("csv", **classes, augmentation=augmentation),
                "tags": dataset("jsonl", label_per="word", **tags),
                "spans": dataset("jsonl", **spans),
            },
            "stages": {
                "judge": {
                    "task": classify,
                    "recipe": RECIPE,
                    "data": {
                        "classes": {},
                        "tags": {"task": {"kind": "token_classification"}},
                        "spans": {"task": detect},
                    },
                }
            },
            "models": {
                "encoder": {"backbone": "encoder", "mechanism": "sdpa"},
                "words": {"backbone": "tfidf", "datasets": ["classes"]},
                "marks": {"backbone": "tfidf_spans", "datasets": ["spans"]},
            },
        },
        "report": {"tables": {"scores": {"stage": "judge", "columns": ["validation_f1"], "datasets": CLASSES}}},
        "execution": {"results": "results/unlabelled", "training": {"device": "cpu"}},
    }


@pytest.fixture(scope="module")
def made(files, run_study):
    return run_study(study(files))


RUNS = [
    ("judge", "encoder", "classes"),
    ("judge", "words", "classes"),
    ("judge", "encoder", "tags"),
    ("judge", "encoder", "spans"),
    ("judge", "marks", "spans"),
]


def test_predictions_without_labels(made):
    for stage, model, dataset in RUNS:
        folder = made.results / "runs" / stage / model / dataset / "seed-3"
        metrics = read_record(folder).metrics
        assert not [name for name in metrics if name.startswith("test_")]
        assert [name for name in metrics if name.startswith("eval_")]
        by_split = pd.read_parquet(folder / "predictions.parquet").groupby("split")
        assert by_split["label"].count().to_dict() == {"test": 0, "validation": 30}, (stage, model, dataset)
        assert by_split["prediction"].count().to_dict() == {"test": 20, "validation": 30}


def predicted(made, model, dataset):
    """Return what a model predicted on test, with the texts, in their order."""
    folder = made.results / "runs/judge" / model / dataset / "seed-3"
    found = pd.read_parquet(folder / "predictions.parquet").query("split == 'test'").set_index("id")
    texts = pd.read_parquet(made.results / f"data/{dataset}/prepared/test.parquet").set_index("id")["text"]
    return found.assign(text=texts).itertuples()


def test_words_and_spans_of_unlabelled_documents(made):
    right = [
        bool(found) == (word in GOOD + BAD)
        for document in predicted(made, "encoder", "tags")
        for found, word in zip(document.prediction, document.text.split(), strict=True)
    ]
    assert (len(right), sum(right) > 90) == (20 * 5, True)
    documents = list(predicted(made, "encoder", "spans"))  # in all windows
    found = [[document.text[start:end] for start, end in document.prediction] for document in documents]
    assert sum(len(words) == 1 and words[0] in GOOD + BAD for words in found) > 15
    for model in ("encoder", "marks"):
        for document in predicted(made, model, "spans"):
            assert len(document.probabilities) == len(document.text)
            assert pd.isna([document.true_positives, document.false_positives, document.false_negatives]).all()


def test_summaries_count_no_labels_of_test(made):
    for dataset in ("classes", "tags", "spans"):
        summary = json.loads((made.results / f"data/{dataset}/prepared/summary.json").read_text())
        assert set(summary["splits"]["test"]["labels"].values()) == {0}
        assert sum(summary["splits"]["validation"]["labels"].values()) >= 30
    summary = json.loads((made.results / "data/classes/augmented/summary.json").read_text())
    assert summary["copies"] == {"train": 40, "validation": 0, "test": 0}


def test_scores_on_unlabelled_test_are_refused(made, files):
    values = study(files)
    values["report"]["tables"]["scores"]["columns"] = ["f1"]
    process = made.snakemake("-n", "--configfile", made.configure(values, "refused.yaml"), check=False)
    assert process.returncode
    assert all(f"datasets.{dataset}.split.test_labels is false" in process.stdout for dataset in CLASSES)
