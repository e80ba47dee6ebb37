"""Words by a masked language model: which it may draw, which models serve, and which do not."""

import numpy as np
import pytest
import torch
from encoder_cases import EncoderForMaskedLM, EncoderForSequenceClassification, build
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from lib.core.errors import ConfigError, DataError, RunError
from lib.preparing.settings.augmentation import Augmentation
from lib.tokens.vocabularies import from_vocabulary, train_byte_pairs, train_wordpiece, train_words
from studies.hate_speech.augmentation.masked_lm import Rewriter
from studies.hate_speech.augmentation.words import Request

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


def test_whole_words_are_drawn_and_nothing_else(tmp_path):
    scores = {"[PAD]": 99, "[MASK]": 98, "##s": 97, "7": 96, "dog": 50, "house": 40, "hound": 30}
    likeliest = rewriter(known_model(tmp_path / "model", scores), top_k=1)
    assert rewritten(likeliest, "hound") == {"dog"}
    assert rewritten(likeliest, "HOUND, (Hounds) hounds 7") == {"DOG, (Dog) dog 7"}


def test_a_word_is_never_replaced_by_itself(tmp_path):
    likeliest = rewriter(known_model(tmp_path / "model", {"Hound": 60, "hound": 50, "dog": 40}), top_k=1)
    assert rewritten(likeliest, "a hound") == {"Hound dog"}
    assert rewritten(likeliest, "Hound") == {"Dog"}


def test_words_are_drawn_by_their_probability_among_the_likeliest(tmp_path):
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


def test_the_tokeniser_may_be_elsewhere(tmp_path):
    tokenizer = train_words(tmp_path / "tokenizer", TEXTS)
    build(EncoderForMaskedLM, vocab_size=len(tokenizer.backend)).save_pretrained(tmp_path / "model")
    assert None not in rewritten(rewriter(tmp_path / "model", tmp_path / "tokenizer"), "dog", range(3))
    with pytest.raises(DataError, match="model: holds no tokeniser"):
        rewriter(tmp_path / "model")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlm") / "model"
    tokenizer = train_wordpiece(folder, TEXTS)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer.backend), initializer_range=1.0, **SMALL)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def test_a_text_alone_and_among_others_gives_the_same(model):
    texts = [" ".join(TEXTS[: number % 5 + 1]) for number in range(40)]
    some = rewriter(model, share=0.3)

    def requests(numbers):
        return [Request(texts[number], np.random.default_rng(number)) for number in numbers]

    together = some.rewrite(requests(range(40)))
    assert [some.rewrite(requests([number]))[0] for number in range(40)] == together
    assert some.rewrite(requests(reversed(range(40)))) == together[::-1]


def test_words_behind_the_length_that_the_model_reads_stay(model):
    short = rewriter(model, max_tokens=6)
    for result in rewritten(short, "the dog saw the hound saw a dog", range(5)):
        assert result.split()[4:] == ["hound", "saw", "a", "dog"]
        assert result.split()[0] != "the"


def test_a_model_reads_no_more_tokens_than_it_has_positions(tmp_path):
    short = rewriter(known_model(tmp_path / "model", {"hound": 20.0}), share=0.1)
    positions = 64
    (result,) = rewritten(short, "un " * 2 * positions, range(1))
    assert "hound" in result.split()[: positions - 2]
    assert set(result.split()[positions - 2 :]) == {"un"}


@pytest.mark.parametrize("text", ["12 :) @dog", "a dog [MASK] dog"])
def test_texts_without_a_word_to_replace(model, text):
    assert rewritten(rewriter(model), text, range(2)) == {None}


def test_a_model_without_a_head_for_masked_tokens(tmp_path):
    tokenizer = train_words(tmp_path / "model", TEXTS)
    build(EncoderForSequenceClassification, vocab_size=len(tokenizer.backend)).save_pretrained(tmp_path / "model")
    with pytest.raises(RunError, match="model: its weights predict no masked tokens"):
        rewriter(tmp_path / "model")


def test_no_model(tmp_path):
    train_words(tmp_path / "model", TEXTS)
    with pytest.raises(RunError, match="model: holds no masked language model"):
        rewriter(tmp_path / "model")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_an_empty_file_of_weights(name, tmp_path):
    model = known_model(tmp_path / "model", {"dog": 1})
    (model / "model.safetensors").unlink()
    (model / name).write_text("" if name.endswith("bin") else '{"weight_map": {}}')
    with pytest.raises(RunError, match="model: holds no masked language model that can be loaded"):
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
def test_unsuitable_tokenisers(tmp_path, model, texts, names, match):
    core = train_words(tmp_path / "tokenizer", texts).backend.backend_tokenizer
    PreTrainedTokenizerFast(tokenizer_object=core, **names).save_pretrained(tmp_path / "other")
    with pytest.raises(ConfigError, match=f"augmentation.masked_lm: .*other: {match}"):
        rewriter(model, tmp_path / "other")
