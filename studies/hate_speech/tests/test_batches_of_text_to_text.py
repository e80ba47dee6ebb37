"""What is to be written about a document, and what is put before it, by tokenisers of ours and like those of T5."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from lib.core.errors import ConfigError
from lib.tokens.vocabularies import train_byte_pairs, train_wordpiece, train_words
from studies.hate_speech.tokens.text_to_text import Targets, TextToTextCollator

pytestmark = pytest.mark.extended

TEXTS = ["a hateful sentence that says non-hateful things: all of it", "sort this sentence: it is kind and non-hateful"]
PREFIX = "sort this sentence: "
TARGETS = ["hateful", "non-hateful"]
OURS = ["wordpiece", "words", "bpe"]


def like_t5(kind):
    """Unigram, or BPE, on words that begin with a mark in place of the space before them; `</s>` ends a text."""
    special = ["<pad>", "</s>", "<unk>"]
    core = Tokenizer(models.Unigram() if kind == "unigram" else models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    core.decoder = decoders.Metaspace()
    trainer = (
        trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False)
        if kind == "unigram"
        else trainers.BpeTrainer(vocab_size=60, special_tokens=special, show_progress=False)
    )
    core.train_from_iterator(TEXTS * 5, trainer)
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="</s>", unk_token="<unk>", pad_token="<pad>", model_input_names=["input_ids"]
    )


@pytest.fixture(scope="module")
def tokenizer_of(tmp_path_factory):
    def make(kind, **options):
        if kind in ("unigram", "metaspace bpe"):
            return like_t5(kind)
        train = {
            "wordpiece": train_wordpiece,
            "words": train_words,
            "bpe": train_byte_pairs,
        }[kind]
        folder = tmp_path_factory.mktemp("tokenizer") / "folder"
        return train(folder, TEXTS * 3, vocab_size=400, min_frequency=1, **options).backend

    return make


def collated(tokenizer, prefix=PREFIX, texts=TEXTS, targets=TARGETS):
    found = Targets(tokenizer, targets)
    examples = [
        {"id": str(number), "input_ids": np.array(tokenizer(text)["input_ids"]), "label": number % 2}
        for number, text in enumerate(texts)
    ]
    return found, TextToTextCollator(tokenizer, prefix, found)(examples)


def rows(batch):
    return [ids[mask == 1].tolist() for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_prefix_and_document_together(kind, tokenizer_of):
    tokenizer = tokenizer_of(kind)
    _, batch = collated(tokenizer)
    assert rows(batch) == [tokenizer(PREFIX + text)["input_ids"] for text in TEXTS]
    _, batch = collated(tokenizer, prefix="")
    assert rows(batch) == [tokenizer(text)["input_ids"] for text in TEXTS]


@pytest.mark.parametrize(
    ("kind", "end"), [("unigram", "</s>"), ("metaspace bpe", "</s>"), *((kind, "[SEP]") for kind in OURS)]
)
def test_target_with_its_end(kind, end, tokenizer_of):
    tokenizer = tokenizer_of(kind)
    targets, batch = collated(tokenizer, texts=[*TEXTS, TEXTS[0]])
    assert tokenizer.convert_ids_to_tokens(targets.end) == end
    assert batch["labels"].shape == (3, targets.longest)
    for labels, number in zip(batch["labels"].tolist(), [0, 1, 0], strict=True):
        ids = tokenizer(TARGETS[number], add_special_tokens=False)["input_ids"]
        assert labels == [*ids, targets.end] + [-100] * (targets.longest - len(ids) - 1)
    assert targets.read(batch["labels"].numpy())[1].tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_whole_targets_are_classes(kind, tokenizer_of):
    tokenizer = tokenizer_of(kind)
    targets = Targets(tokenizer, TARGETS)
    whole, _ = targets.ids
    *_, more = tokenizer("kind", add_special_tokens=False)["input_ids"]
    written = [
        [*whole, more],  # behind the end, where nothing counts
        whole[:-1],  # cut off before its end, but all there
        [*whole[:-1], more, targets.end],
        [*whole[:-1], *whole],
        [targets.end],
        [tokenizer.pad_token_id, *whole],
        [-100] * 3,
    ]
    longest = max(map(len, written))
    texts, classes = targets.read(np.array([row + [-100] * (longest - len(row)) for row in written]))
    assert classes.tolist() == [0, 0, -1, -1, -1, -1, -1]
    assert texts[0] == texts[1] == "hateful"
    assert (texts[4], texts[6]) == ("", "")


@pytest.mark.parametrize(
    ("kind", "targets", "message"),
    [
        ("words", ["hateful", "friendly"], r"cannot write 'friendly', only '\[UNK\]'"),
        ("unigram", ["hateful", "Я"], "cannot write 'Я'"),
    ],
)
def test_targets_refused(kind, targets, message, tokenizer_of):
    with pytest.raises(ConfigError, match=f"task.targets: .*{message}"):
        Targets(tokenizer_of(kind), targets)
