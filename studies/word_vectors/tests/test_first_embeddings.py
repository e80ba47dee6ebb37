"""Word vectors as first embeddings: the tokens that are words get theirs, all others keep what was drawn."""

import pytest
import torch
from word_vectors import stored

from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.recurrent.backbone import Backbone
from lib.backbones.recurrent.model import RecurrentModel
from lib.backbones.recurrent.settings import Settings
from lib.core.errors import RunError
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import train_byte_pairs, train_wordpiece, train_words
from studies.word_vectors.backbones.first_embeddings import words_of

pytestmark = pytest.mark.extended

TEXTS = ["the king, Paris, queens and cafés of the kingdom"] * 20
WORDS = {"king": [1, 2, 3, 4], "paris": [5, 6, 7, 8], "and": [0, 1, 0, 1], "unread": [9, 9, 9, 9]}
TRAIN = {"wordpiece": train_wordpiece, "words": train_words, "bpe": train_byte_pairs}


def parts(tmp_path, algorithm="wordpiece", width=4):
    """Return tokeniser, backbone and model with first weights."""
    TRAIN[algorithm](tmp_path / algorithm, TEXTS, vocab_size=400)
    tokenizer = TextTokenizer.load(tmp_path / algorithm).backend
    backbone = Backbone(Settings(hidden_size=width, num_hidden_layers=1), seed=0)
    torch.manual_seed(0)
    model_class = SequenceClassification.on(RecurrentModel)
    return tokenizer, backbone, model_class(backbone.config(tokenizer, {"num_labels": 2}))


@pytest.mark.parametrize(
    ("algorithm", "tokens"),
    [
        ("wordpiece", {"king": "king", "paris": "paris", "and": "and"}),
        ("words", {"and": "and"}),  # the others stand before a comma
        ("bpe", {"Ġking": "king", "ĠParis": "paris", "Ġand": "and"}),
    ],
)
def test_tokens_that_begin_as_words(tmp_path, algorithm, tokens, caplog):
    caplog.set_level("INFO")
    tokenizer, backbone, model = parts(tmp_path, algorithm)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    backbone.load_weights(model, stored(tmp_path / "v", WORDS))
    changed = dict(zip(tokenizer.convert_tokens_to_ids(list(tokens)), tokens.values(), strict=True))
    embeddings = model.get_input_embeddings().weight
    for name, weight in model.state_dict().items():
        if name != "recurrent.embeddings.word_embeddings.weight":
            assert torch.equal(weight, before[name]), name
    for number, drawn in enumerate(before["recurrent.embeddings.word_embeddings.weight"]):
        expected = torch.tensor(WORDS[changed[number]]).float() if number in changed else drawn
        assert torch.equal(embeddings[number], expected), tokenizer.convert_ids_to_tokens(number)
    assert f"{len(tokens)} of {len(tokenizer)} tokens begin as word vectors" in caplog.text


def test_embeddings_train_on(tmp_path):
    _, backbone, model = parts(tmp_path)
    backbone.load_weights(model, stored(tmp_path / "v", WORDS))
    assert model.get_input_embeddings().weight.requires_grad


def test_pieces_that_are_no_words(tmp_path):
    tokenizer, _, _ = parts(tmp_path, "bpe")
    assert "king" in words_of(tokenizer).values()
    inside = tokenizer.convert_tokens_to_ids("k")  # a single byte, which also stands inside words
    assert inside not in words_of(tokenizer)
    assert tokenizer.pad_token_id not in words_of(tokenizer)


def test_vectors_of_another_width(tmp_path):
    _, backbone, model = parts(tmp_path, width=6)
    before = model.get_input_embeddings().weight.clone()
    with pytest.raises(RunError, match="vectors have 4 dimensions, but the embeddings 6"):
        backbone.load_weights(model, stored(tmp_path / "v", WORDS))
    assert torch.equal(model.get_input_embeddings().weight, before)
