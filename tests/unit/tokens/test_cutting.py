"""What stays of a text that has more tokens than a model reads."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lib.core.errors import ConfigError
from lib.preparing.settings.corpus import Slice
from lib.tokens.cutting import cut_of, encode_cut, encode_cut_pairs, note_cut
from lib.tokens.encoding import encode
from lib.tokens.stored import load_tokens
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_corpus, tokenize_dataset
from lib.tokens.vocabularies import train_wordpiece, train_words

WORDS = [f"{first}{vowel}{last}" for first in "bdgklmnp" for vowel in "aeiou" for last in "nrstlm"]
TEXT = " ".join(WORDS[number % len(WORDS)] for number in range(700))


@pytest.fixture(scope="module", params=["wordpiece", "bare"])
def tokenizers(request, tmp_path_factory):
    """A tokeniser that keeps the first tokens, and its like that keeps head and tail."""
    make = {
        "wordpiece": train_wordpiece,
        "bare": lambda folder, texts: train_words(folder, texts, enclose=False),
    }[request.param]
    found = []
    for cut in ("head", "head_tail"):
        folder = tmp_path_factory.mktemp(cut) / "tokenizer"
        make(folder, [" ".join(WORDS)])
        note_cut(folder, cut)
        found.append(TextTokenizer.load(folder))
    return found


def test_head_and_tail_of_512(tokenizers):
    """As in Sun et al. 2019; what encloses a text stays around it."""
    head, ends = tokenizers
    whole = head.encode_ragged([TEXT], 10**6)[0]
    (found,) = encode_cut(ends, [TEXT], 512)
    assert found == whole[:129] + whole[-383:]
    enclosed = head.backend.num_special_tokens_to_add() // 2
    assert encode_cut(head, [TEXT], 50)[0] == whole[: 50 - enclosed] + whole[len(whole) - enclosed :]
    if head.backend.num_special_tokens_to_add():
        assert found[1:129] + found[129:-1] == whole[1:-1][:128] + whole[1:-1][-382:]


@pytest.mark.parametrize("max_tokens", [3, 9])
def test_head_and_tail_of_other_lengths(max_tokens, tokenizers):
    head, ends = tokenizers
    whole = head.encode_ragged([TEXT], 10**6)[0]
    (found,) = encode_cut(ends, [TEXT], max_tokens)
    room = max_tokens - head.backend.num_special_tokens_to_add()
    kept = round(room * 128 / 510) + (max_tokens - room) // 2
    assert found == whole[:kept] + whole[len(whole) - (max_tokens - kept) :]
    assert len(found) == max_tokens


def test_head_and_tail_of_short_texts(tokenizers):
    texts = [" ".join(WORDS[:number]) for number in (1, 5, 30)]
    head, ends = tokenizers
    assert encode_cut(ends, texts, 200) == encode_cut(head, texts, 200)


def test_note_with_the_tokeniser(tokenizers, tmp_path):
    """As a run saves it beside its model."""
    _, ends = tokenizers
    ends.backend.model_max_length = 64
    ends.backend.save_pretrained(tmp_path / "model")
    again = TextTokenizer.load(tmp_path / "model")
    assert cut_of(again.backend) == "head_tail"
    assert encode([TEXT], tmp_path / "model", 64)["input_ids"].tolist() == encode_cut(ends, [TEXT], 64)


def test_datasets_and_corpora_with_a_note(tokenizers, tmp_path):
    head, ends = tokenizers
    rows = {"id": ["a", "b"], "text": [TEXT, WORDS[0]]}
    pq.write_table(pa.table(rows | {"label": [0, 1]}), tmp_path / "labelled.parquet")
    pq.write_table(pa.table(rows), tmp_path / "articles.parquet")
    places = {"folder": tmp_path, "lengths": tmp_path / "lengths.json"}
    tokenize_dataset({"test": tmp_path / "labelled.parquet"}, ends, max_tokens=40, **places)
    assert load_tokens(tmp_path / "test")["input_ids"][:] == encode_cut(ends, rows["text"], 40)
    one, none = Slice(articles=1, max_tokens=40), Slice(articles=0, max_tokens=40)
    tokenize_corpus([tmp_path / "articles.parquet"], ends, short=one, long=none, held_out=one, **places)
    assert load_tokens(tmp_path / "train")["input_ids"][:] == head.encode_ragged([TEXT], 40)


@pytest.mark.parametrize(("first", "second"), [(700, 700), (3, 700), (3, 3)])
def test_pairs_with_head_and_tail(tokenizers, first, second, tmp_path):
    """Each keeps as many tokens as where first ones stay, and of them 128 of 510 are its head."""
    head, ends = tokenizers
    if not head.backend.num_special_tokens_to_add():
        with pytest.raises(ConfigError):
            encode_cut_pairs(ends, [(TEXT, TEXT)], 64)
        return
    pair = tuple(" ".join(TEXT.split()[:number]) for number in (first, second))
    kept = head.encodings([pair], 64)[0].sequence_ids
    uncut = head.encodings([pair], 10**6)[0]
    whole, whole_segments, texts = uncut.ids, uncut.type_ids, uncut.sequence_ids
    expected, segments = [], []
    for text in (0, 1):
        start, size, number = texts.index(text), texts.count(text), kept.count(text)
        own = slice(start, start + size)
        in_head = round(number * 128 / 510)
        behind = size - number + in_head
        expected += [whole[start - 1], *whole[own][:in_head], *whole[own][behind:]]
        segments += [whole_segments[start - 1]] + [whole_segments[start]] * number
    expected, segments = [*expected, whole[-1]], [*segments, whole_segments[-1]]
    assert encode_cut_pairs(ends, [pair], 64) == ([expected], [segments])
    assert len(expected) == min(64, len(whole))
    rows = {"id": ["a"], "text": [pair[0]], "text_pair": [pair[1]], "label": [0]}
    pq.write_table(pa.table(rows), tmp_path / "pairs.parquet")
    places = {"folder": tmp_path, "lengths": tmp_path / "lengths.json"}
    tokenize_dataset({"train": tmp_path / "pairs.parquet"}, ends, max_tokens=64, **places)
    assert load_tokens(tmp_path / "train")["input_ids"][:] == [expected]
