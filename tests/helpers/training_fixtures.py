import os
import random

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from lib.preparing.parts import part_schema
from lib.study.run import RunSettings
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset
from lib.tokens.vocabularies import train_wordpiece, train_words
from lib.training.predictor import Observer
from lib.training.run import train
from lib.training.trainer import Trainer

# Several small trainings at once would otherwise fight for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

WORDS = [first + vowel + last for first in "bdfgk" for vowel in "aeiou" for last in "lmnrst"]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TASKS = {
    "pretrain": "masked_lm",
    "tapt": "masked_lm",
    "finetune": "sequence_classification",
    "tag": "token_classification",
    "imitate": "imitation",
}
MAX_TOKENS = 32
LLAMA = SIZES | {"model_type": "llama", "max_position_embeddings": 64, "tie_word_embeddings": True}
"""Architecture of a small decoder."""


def document(number, label, length):
    """Return words that tell the label."""
    vocabulary = WORDS[:90] if label else WORDS[60:]
    return " ".join(vocabulary[(7 * number + 11 * place) % len(vocabulary)] for place in range(length))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A tokeniser and a small labelled dataset, tokenised.

    Two of the test documents are longer than all that a run trains on: one is cut, the other is not.
    """
    folder = tmp_path_factory.mktemp("corpus")
    train_wordpiece(folder / "tokenizer", [" ".join(WORDS)] * 5, vocab_size=400)
    tokenizer = TextTokenizer.load(folder / "tokenizer")
    sources = {}
    for split, size in (("train", 192), ("validation", 40), ("test", 40)):
        labels = [number % 2 for number in range(size)]
        lengths = [6 + (3 * number + len(split)) % 19 for number in range(size)]
        if split == "test":
            lengths[:2] = [MAX_TOKENS - 4, 2 * MAX_TOKENS]
        texts = [
            document(3 * number + len(split), label, length)
            for number, (label, length) in enumerate(zip(labels, lengths, strict=True))
        ]
        ids = [f"{split}-{number}" for number in range(size)]
        sources[split] = folder / f"{split}.parquet"
        pq.write_table(pa.table({"id": ids, "text": texts, "label": labels}), sources[split])
    tokenize_dataset(
        sources, tokenizer, max_tokens=MAX_TOKENS, folder=folder / "tokens", lengths=folder / "token_lengths.json"
    )
    return folder


@pytest.fixture(scope="session")
def tagged(tmp_path_factory):
    """A dataset whose words are labelled, tokenised without enclosing tokens.

    Words are drawn at random, and whatever a word is, its label tells of which half of the vocabulary the word before
    it was; the first one has none. Documents are in groups by their length; one of the test is cut.
    """
    folder = tmp_path_factory.mktemp("tagged")
    sources = {}
    for split, size in (("train", 192), ("validation", 40), ("test", 40)):
        rng = random.Random(split)
        lengths = [rng.randint(6, 24) for _ in range(size)]
        lengths[0] = MAX_TOKENS + 8
        texts = [rng.choices(WORDS[:10], k=length) for length in lengths]
        labels = [[-100, *(WORDS.index(word) // 5 for word in words[:-1])] for words in texts]
        rows = {"id": [f"{split}-{number}" for number in range(size)], "text": [" ".join(words) for words in texts]}
        sources[split] = folder / f"{split}.parquet"
        pq.write_table(pa.table(rows | {"label": labels, "group": lengths}), sources[split])
    train_words(folder / "tokenizer", [" ".join(WORDS)], enclose=False)
    tokenize_dataset(
        sources,
        TextTokenizer.load(folder / "tokenizer"),
        max_tokens=MAX_TOKENS,
        folder=folder / "tokens",
        lengths=folder / "token_lengths.json",
    )
    return folder


@pytest.fixture(scope="session")
def sets(corpus, tmp_path_factory):
    """Changes of a run whose documents have none, one or both of the classes."""
    folder, sources = tmp_path_factory.mktemp("sets"), {}
    for split in ("train", "validation", "test"):
        frame, sources[split] = pd.read_parquet(corpus / f"{split}.parquet"), folder / f"{split}.parquet"
        frame["label"] = [[], [0, 1], *([each] for each in frame["label"][2:])]
        pq.write_table(pa.Table.from_pandas(frame, part_schema("set"), preserve_index=False), sources[split])
    tokenizer, lengths = TextTokenizer.load(corpus / "tokenizer"), folder / "token_lengths.json"
    tokenize_dataset(sources, tokenizer, max_tokens=MAX_TOKENS, folder=folder / "tokens", lengths=lengths)
    task = {"kind": "multi_label_classification", "threshold": "per_class"}
    return {"task": task, "data": {split: str(folder / "tokens" / split) for split in sources}}


@pytest.fixture(scope="session")
def settings(corpus, tagged):
    """Return settings of a run, as a mapping, with `changes` laid over them.

    What is of another kind replaces all that was there; so does `backbone.mechanism`.
    """

    def make(stage, **changes):
        labelled = stage in ("finetune", "tag")
        splits = ("train", "validation", "test") if labelled else ("train", "validation")
        folder = tagged if stage == "tag" else corpus
        values = {
            "stage": stage,
            "model": "sdpa",
            "dataset": "wikipedia" if stage == "pretrain" else "toy",
            "seed": 7,
            "precision": "fp32",
            "task": {"kind": TASKS[stage]},
            "backbone": {"kind": "encoder", "mechanism": {"kind": "sdpa"}, **SIZES},
            "tokenizer": str(folder / "tokenizer"),
            "max_tokens": MAX_TOKENS,
            "data": {split: str(folder / "tokens" / split) for split in splits},
            "recipe": {"epochs": 2, "learning_rate": 1e-3, "min_lr_ratio": 0.1, "batch_size": 32},
            "execution": {"device": "cpu"},
        }
        if labelled:
            values["labels"] = ["low", "high"]
        if stage == "imitate":
            values["extensions"] = ["studies/conversion"]
        for key, value in changes.items():
            before = values.get(key)
            laid_over = isinstance(before, dict) and isinstance(value, dict)
            if laid_over and value.get("kind") in (None, before.get("kind")):
                value = before | value
            values[key] = value
        return values

    return make


@pytest.fixture(scope="session")
def run_of(settings):
    """Return checked settings of a run; arguments as of `settings`."""
    return lambda stage, **changes: RunSettings.model_validate(settings(stage, **changes))


@pytest.fixture(scope="session")
def imitation(settings, tmp_path_factory):
    """Return settings of a run that learns the states of a model with exact attention by FAVOR+, from its weights.

    Arguments as of `settings`. First weights are large, so that FAVOR+ is far from exact attention.
    """
    backbone = {"initializer_range": 0.2}
    values = settings("pretrain", backbone=backbone)
    folder = tmp_path_factory.mktemp("teacher") / "run"
    train(RunSettings.model_validate(values), folder)

    def make(**changes):
        task = {
            "kind": "imitation",
            "teacher": "sdpa",
            "teacher_backbone": values["backbone"],
            "teacher_weights": str(folder / "model"),
        }
        own = {"model": "favor-m16", "start": {"run": str(folder), "checkpoint": str(folder / "model")}}
        mechanism = {"mechanism": {"kind": "favor", "nb_features": 16}}
        changes["task"] = task | changes.get("task", {})
        changes["backbone"] = backbone | mechanism | changes.get("backbone", {})
        return settings("imitate", **own | changes)

    return make


@pytest.fixture(scope="module")
def undisturbed(run, tmp_path_factory):
    """The folder of a module's `run`, done in one go."""
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    train(run, folder)
    return folder


class Stopped(BaseException):
    pass


@pytest.fixture
def gradients_of_first_step(monkeypatch, tmp_path):
    """Return the gradients of a run's first optimiser step, by weight, and the micro-batches it took."""

    def gradients(run):
        found, micro_batches = {}, []
        step = Trainer.training_step

        def count(self, *arguments):
            micro_batches.append(1)
            return step(self, *arguments)

        class Stop(Observer):
            def has_gradients(self, trainer):
                found.update({name: weight.grad.clone() for name, weight in trainer.model.named_parameters()})
                raise Stopped

        with monkeypatch.context() as context:
            context.setattr(Trainer, "training_step", count)
            with pytest.raises(Stopped):
                train(run, tmp_path / "out", observers=[Stop()])
        return found, len(micro_batches)

    return gradients


@pytest.fixture
def assert_accumulates(gradients_of_first_step):
    """Compare the gradients of 64 documents at once with those of micro-batches; settings as of `run_of`."""

    def compare(run_of, stage, **changes):
        found, recipe = {}, {"batch_size": 64, "max_grad_norm": 0} | changes.pop("recipe", {})
        for tokens in (64 * 32, 8 * 32):
            run = run_of(stage, **changes, recipe=recipe, execution={"micro_batch_tokens": tokens})
            found[tokens] = gradients_of_first_step(run)
        (whole, one), (accumulated, several) = found.values()
        assert one == 1 < several
        assert whole.keys() == accumulated.keys()
        for name, gradient in whole.items():
            assert gradient.any() or name.endswith("key.bias"), f"{name} has no gradient"
            torch.testing.assert_close(
                accumulated[name], gradient, rtol=1e-4, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}"
            )

    return compare
