"""How well vectors tell classes apart."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from encoder_cases import EncoderForSequenceClassification
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from lib.analysis.computations.subject import Subject
from lib.backbones.encoder.configuration import EncoderConfig
from lib.tokens.vocabularies import save_bytes, train_byte_pairs, train_wordpiece, train_words
from studies.toy.analysis.computations.embeddings import _first, analyse, separation

pytestmark = pytest.mark.extended

LABELS = np.array([0] * 20 + [1] * 10)


def test_one_vector_for_all():
    """The best that a classifier can do is to say the greater class, two thirds of the documents."""
    silhouette, accuracy = separation(np.ones((30, 4)), LABELS, seed=1)
    assert silhouette == 0
    assert accuracy == pytest.approx(2 / 3)


def test_silhouette_by_hand():
    """On a line at 0, 1 and 4, 5: within a class 1 apart, from the other class 4.5 or 3.5 on average."""
    vectors = np.array([0.0, 1.0] * 10 + [4.0, 5.0] * 5)[:, None]
    silhouette, accuracy = separation(vectors, LABELS, seed=1)
    first = 1 - np.array([10 / 19 / 4.5, 10 / 19 / 3.5]).mean()
    second = 1 - np.array([5 / 9 / 3.5, 5 / 9 / 4.5]).mean()
    assert silhouette == pytest.approx((20 * first + 10 * second) / 30)
    assert accuracy == 1


def published(folder, texts, *, space):
    """A tokeniser of pieces that keep the space before them, as SentencePiece makes; `space`: where one is added."""
    core = Tokenizer(models.Unigram())
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=space)
    core.decoder = decoders.Metaspace(prepend_scheme=space)
    special = ["<pad>", "<unk>", "</s>"]
    core.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=80, special_tokens=special, unk_token="<unk>"))
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", unk_token="<unk>", eos_token="</s>")


TOKENIZERS = {
    "wordpiece": lambda folder, texts: train_wordpiece(folder, texts, vocab_size=120).backend,
    "words": lambda folder, texts: train_words(folder, texts).backend,
    "bpe": lambda folder, texts: train_byte_pairs(folder, texts, vocab_size=400).backend,
    "bytes": lambda folder, texts: save_bytes(folder).backend,
    "published, a space first": lambda folder, texts: published(folder, texts, space="first"),
    "published, a space always": lambda folder, texts: published(folder, texts, space="always"),
    "published, no space": lambda folder, texts: published(folder, texts, space="never"),
}
"""By the algorithm of their settings."""


def documents(word):
    """Texts of two classes, each with the word in its middle, but for some that hold it in a longer word or not at all.

    Three have it at their beginning, where byte-level vocabularies have another token for it.
    """
    classes = [f"the old {word} of the river was green", f"my new {word} has lent us money"]
    whole = [classes[number % 2] for number in range(40)] + [f"{word} of the river", f"{word} of money", f"{word} ."]
    others = [f"the river{word} was green", f"the {word}ing was new", "the river has money"]
    return [*whole, *others], len(whole)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_word_by_its_spelling(name, tmp_path):
    """In every document that has it as a word, whatever token it is there, and in no other."""
    word = "q" if name == "bytes" else "bank"  # whose tokens are single letters
    texts, whole = documents(word)
    tokenizer = TOKENIZERS[name](tmp_path / "tokenizer", texts * 3)
    ids = [tokenizer(text)["input_ids"] for text in texts]
    columns = {"id": [f"d{number}" for number in range(len(texts))], "input_ids": ids, "length": [*map(len, ids)]}
    tokens = Dataset.from_dict(columns | {"label": [number % 2 for number in range(len(texts))]})
    torch.manual_seed(0)
    config = EncoderConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        mechanism={"kind": "sdpa"}, initializer_range=0.5,
    )  # fmt: skip
    model = EncoderForSequenceClassification(config).eval()
    subject = Subject("one", "toy", 1, tokenizer, tokens, model, lambda model: None)
    frame = analyse(subject, documents=99, word=word, labels=["river", "money"])
    found = {kind: part.reset_index() for kind, part in frame.groupby("representation")}
    for part in found.values():
        assert part["document"].tolist() == [f"d{number}" for number in range(whole)]
    spelled = [tokenizer.convert_ids_to_tokens(row) for row in ids[:whole]]
    kinds = {token for row in spelled for token in row if token.strip("\u0120\u2581") == word}
    assert len(found["static"][["x", "y"]].round(6).drop_duplicates()) == len(kinds)
    assert len(kinds) == (2 if name in ("bpe", "published, no space") else 1)


def test_word_without_spaces(tmp_path):
    bank = "\u94f6\u884c"
    texts = [f"{chr(0x4E00 + 7 * number)}{bank}{chr(0x5000 + 11 * number)}" for number in range(60)]
    tokenizer = train_byte_pairs(tmp_path / "tokenizer", [*texts, *[bank] * 300], vocab_size=266).backend
    (token,) = tokenizer.encode(bank, add_special_tokens=False)
    holding = [ids for text in texts if token in (ids := tokenizer(text)["input_ids"])]
    assert len(holding) > 50
    assert all(_first(tokenizer, ids, {token}) == ids.index(token) for ids in holding)
