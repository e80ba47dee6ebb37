"""Words by a masked language model: which it may draw, which models serve, and which do not."""

import numpy as np
import pytest
import torch
from encoder_cases import EncoderForMaskedLM, build
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from lib.core.errors import ConfigError, RunError
from lib.preparing.settings.augmentation import Augmentation
from lib.tokens.vocabularies import from_vocabulary, train_byte_pairs, train_wordpiece, train_words
from studies.hate_speech.augmentation.masked_lm import Rewriter
from studies.hate_speech.augmentation.words import Request

pytestmark = pytest.mark.extended

TEXTS = ["the dog saw the hound", "a hound saw a dog", "the dogs saw the house", "a house", "unseen words"] * 4
TRAINED = {
    "wordpiece": train_wordpiece,
    "words": train_words,
    "bpe": train_byte_pairs,
}
SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}


def rewriter(*source, share=1.0, **options):
    settings = Augmentation(labels=["yes"], by="masked_lm", share=share, masked_lm={"folder": str(source[0])} | options)
    return Rewriter(settings, source, "cpu")


def rewritten(rewriter, text, seeds=range(30)):
    return {rewriter.rewrite([Request(text, np.random.default_rng(seed))])[0] for seed in seeds}


def known_model(folder, scores):
    """Save a BERT that expects the same tokens everywhere: those of `scores` by far, in their order."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog", "hound", "Hound", "house", "##s", "7", "un"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = from_vocabulary(vocabulary, folder).backend
    model = BertForMaskedLM(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **SMALL))
    bias = model.cls.predictions.decoder.bias
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        for token, score in scores.items():
            bias[tokenizer.convert_tokens_to_ids(token)] = score
    model.save_pretrained(folder)
    return folder


def test_whole_words_drawn(tmp_path):
    scores = {"[PAD]": 99, "[MASK]": 98, "##s": 97, "7": 96, "dog": 50, "house": 40, "hound": 30}
    likeliest = rewriter(known_model(tmp_path / "model", scores), top_k=1)
    assert rewritten(likeliest, "hound") == {"dog"}
    assert rewritten(likeliest, "HOUND, (Hounds) hounds 7") == {"DOG, (Dog) dog 7"}


def test_words_by_probability(tmp_path):
    scores = {"dog": np.log(3), "house": 0.0, "hound": -0.1, "Hound": -9, "un": -9}
    two = rewriter(known_model(tmp_path / "model", scores), top_k=2)
    found = [two.rewrite([Request("un", np.random.default_rng(seed))])[0] for seed in range(400)]
    assert set(found) == {"dog", "house"}
    assert 0.68 < found.count("dog") / 400 < 0.82


@pytest.mark.parametrize("algorithm", TRAINED)
def test_models_of_this_project(tmp_path, algorithm):
    tokenizer = TRAINED[algorithm](tmp_path / "tokenizer", TEXTS, vocab_size=400)
    model = build(EncoderForMaskedLM, vocab_size=len(tokenizer.backend), initializer_range=1.0)
    model.save_pretrained(tmp_path / "model")
    tokenizer.backend.save_pretrained(tmp_path / "model")
    half = rewriter(tmp_path / "model", share=0.5)
    text = "the dog saw a house"
    for result in rewritten(half, text):
        before, after = text.split(), result.split()
        assert len(after) == len(before)
        assert sum(old != new for old, new in zip(before, after, strict=True)) == round(0.5 * 5)
        assert result.replace(" ", "").isalpha()
    assert len(rewritten(half, text)) > 5


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlm") / "model"
    tokenizer = train_wordpiece(folder, TEXTS)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer.backend), initializer_range=1.0, **SMALL)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def test_text_among_others(model):
    texts = [" ".join(TEXTS[: number % 5 + 1]) for number in range(40)]
    some = rewriter(model, share=0.3)

    def requests(numbers):
        return [Request(texts[number], np.random.default_rng(number)) for number in numbers]

    together = some.rewrite(requests(range(40)))
    assert [some.rewrite(requests([number]))[0] for number in range(40)] == together
    assert some.rewrite(requests(reversed(range(40)))) == together[::-1]


def test_words_behind_the_length(model):
    short = rewriter(model, max_tokens=6)
    for result in rewritten(short, "the dog saw the hound saw a dog", range(5)):
        assert result.split()[4:] == ["hound", "saw", "a", "dog"]
        assert result.split()[0] != "the"


def test_weights_that_are_empty(tmp_path):
    model = known_model(tmp_path / "model", {"dog": 1})
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").touch()
    with pytest.raises(RunError):
        rewriter(model)


@pytest.mark.parametrize(
    ("texts", "names", "match"),
    [
        (TEXTS, {"unk_token": "[UNK]", "pad_token": "[PAD]"}, "has no mask token"),
        (
            ["12 34"],
            {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"},
            "has 0 tokens that are whole",
        ),
    ],
)
def test_tokenisers_refused(tmp_path, model, texts, names, match):
    core = train_words(tmp_path / "tokenizer", texts).backend.backend_tokenizer
    PreTrainedTokenizerFast(tokenizer_object=core, **names).save_pretrained(tmp_path / "other")
    with pytest.raises(ConfigError, match=f"augmentation.masked_lm: .*other: {match}"):
        rewriter(model, tmp_path / "other")
