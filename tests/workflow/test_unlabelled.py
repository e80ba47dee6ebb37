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
CLASSES = ["classes", "tags", "spans", "spans-csv"]
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
        "score": float(number % 2),
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
    t5 = {"model_type": "t5", "d_model": 32, "d_kv": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    classes, tags = {"label": "kind", "labels": ["good", "bad"]}, {"label": "tags", "labels": ["usual", "special"]}
    spans = {"label": "spans", "label_per": "span", "labels": ["outside", "inside"], "max_tokens": 6}
    augmentation = {"labels": ["bad"], "by": "synonyms", "synonyms": {"local": str(files / "dict")}}
    classify, detect = {"kind": "sequence_classification"}, {"kind": "span_detection"}
    write = {"kind": "text_to_text", "targets": ["sweet", "sour"]}
    return {
        "extensions": ["studies/hate_speech", "studies/decoders"],
        "experiment": {
            "seeds": [3],
            "precision": "fp32",
            "mechanisms": {"sdpa": {"kind": "sdpa"}},
            "backbones": {
                "encoder": {"kind": "encoder", **encoder, "initializer_range": 0.1},
                "t5": {"kind": "encoder_decoder", "architecture": t5 | {"dropout_rate": 0.0}},
                "tfidf": {"kind": "tfidf", "min_df": 1},
                "tfidf_spans": {"kind": "tfidf_spans", "min_df": 1},
            },
            "tokenizers": {"pieces": {"source": "trained", "corpus": ["classes"], "vocab_size": 100}},
            "datasets": {
                "classes": dataset("csv", **classes, augmentation=augmentation),
                "numbers": dataset("jsonl", label="score", label_range=[0, 1]),
                "tags": dataset("jsonl", label_per="word", **tags),
                "spans": dataset("jsonl", **spans),
                "spans-csv": dataset("csv", **spans),
            },
            "stages": {
                "adapt": {
                    "models": ["encoder"],
                    "task": {"kind": "masked_lm"},
                    "recipe": RECIPE,
                    "data": {"tags": {}, "spans": {}},
                },
                "judge": {
                    "task": classify,
                    "recipe": RECIPE,
                    "data": {
                        "classes": {},
                        "numbers": {"task": {"kind": "regression"}},
                        "tags": {"task": {"kind": "token_classification"}},
                        "spans": {"task": detect},
                        "spans-csv": {"task": detect},
                    },
                },
                "write": {"models": ["t5"], "task": write, "recipe": RECIPE, "data": {"classes": {}}},
            },
            "models": {
                "encoder": {"backbone": "encoder", "mechanism": "sdpa"},
                "student": {
                    "backbone": "encoder",
                    "mechanism": "sdpa",
                    "datasets": ["classes"],
                    "changes": {"judge": {"task": {"kind": "distillation", "teacher": "encoder"}}},
                },
                "words": {"backbone": "tfidf", "datasets": ["classes"]},
                "marks": {"backbone": "tfidf_spans", "datasets": ["spans", "spans-csv"]},
                "t5": {"backbone": "t5", "skip": ["adapt", "judge"]},
            },
        },
        "report": {
            "tables": {
                "scores": {"stage": "judge", "columns": ["validation_f1"], "datasets": CLASSES},
                "numbers": {"stage": "judge", "columns": ["validation_pearson"], "datasets": ["numbers"]},
                "written": {"stage": "write", "columns": ["validation_f1"]},
                "adapted": {"stage": "adapt", "columns": ["minutes"]},
            }
        },
        "execution": {"results": "results/unlabelled", "training": {"device": "cpu"}},
    }


@pytest.fixture(scope="module")
def made(files, run_study):
    return run_study(study(files))


RUNS = [
    ("judge", "encoder", "classes"),
    ("judge", "student", "classes"),
    ("judge", "words", "classes"),
    ("write", "t5", "classes"),
    ("judge", "encoder", "numbers"),
    ("judge", "encoder", "tags"),
    ("judge", "encoder", "spans"),
    ("judge", "encoder", "spans-csv"),
    ("judge", "marks", "spans"),
    ("judge", "marks", "spans-csv"),
]


@pytest.mark.parametrize(("stage", "model", "dataset"), RUNS)
def test_every_document_of_test_is_predicted_and_none_is_scored(made, stage, model, dataset):
    folder = made.results / "runs" / stage / model / dataset / "seed-3"
    metrics = read_record(folder).metrics
    assert not [name for name in metrics if name.startswith("test_")]
    assert [name for name in metrics if name.startswith("eval_")]
    by_split = pd.read_parquet(folder / "predictions.parquet").groupby("split")
    assert by_split["label"].count().to_dict() == {"test": 0, "validation": 30}
    assert by_split["prediction"].count().to_dict() == {"test": 20, "validation": 30}


def predicted(made, model, dataset):
    """Return what a model predicted on test, with the texts, in their order."""
    folder = made.results / "runs/judge" / model / dataset / "seed-3"
    found = pd.read_parquet(folder / "predictions.parquet").query("split == 'test'").set_index("id")
    texts = pd.read_parquet(made.results / f"data/{dataset}/prepared/test.parquet").set_index("id")["text"]
    return found.assign(text=texts).itertuples()


def test_every_word_of_an_unlabelled_document_is_predicted(made):
    right = [
        bool(found) == (word in GOOD + BAD)
        for document in predicted(made, "encoder", "tags")
        for found, word in zip(document.prediction, document.text.split(), strict=True)
    ]
    assert len(right) == 20 * 5
    assert sum(right) > 90


def test_spans_of_unlabelled_documents_are_found_in_all_windows(made):
    documents = list(predicted(made, "encoder", "spans"))
    found = [[document.text[start:end] for start, end in document.prediction] for document in documents]
    assert sum(len(words) == 1 and words[0] in GOOD + BAD for words in found) > 15


@pytest.mark.parametrize("model", ["encoder", "marks"])
def test_characters_without_labels_have_probabilities_and_no_counts(made, model):
    for document in predicted(made, model, "spans"):
        assert len(document.probabilities) == len(document.text)
        assert pd.isna([document.true_positives, document.false_positives, document.false_negatives]).all()


@pytest.mark.parametrize("dataset", ["classes", "numbers", "tags", "spans", "spans-csv"])
def test_the_summary_counts_no_labels_of_test(made, dataset):
    summary = json.loads((made.results / f"data/{dataset}/prepared/summary.json").read_text())
    assert summary["splits"]["test"]["documents"] == 20
    assert set(summary["splits"]["test"]["labels"].values()) <= {0, 20}  # of numbers, documents are counted
    assert sum(summary["splits"]["validation"]["labels"].values()) >= 30


def test_documents_of_training_alone_are_copied(made):
    summary = json.loads((made.results / "data/classes/augmented/summary.json").read_text())
    assert summary["copies"] == {"train": 40, "validation": 0, "test": 0}


def test_scores_on_test_are_refused(made, files):
    values = study(files)
    values["report"]["tables"]["scores"]["columns"] = ["f1"]
    process = made.snakemake("-n", "--configfile", made.configure(values, "refused.yaml"), check=False)
    assert process.returncode
    for dataset in CLASSES:
        assert f"f1 is a score on test, but datasets.{dataset}.split.test_labels is false" in process.stdout
