import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

from lib.core.errors import ConfigError, DataError
from lib.preparing.settings.corpus import Slice
from lib.preparing.settings.tokenizer import Tokenizer
from lib.tokens.batches import LengthGroupedSampler
from lib.tokens.masking import MlmCollator, TokenMasker
from lib.tokens.stored import EVALUATION, TokenDataset, load_tokens, share_longer
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import StoredTexts, tokenize_corpus, tokenize_dataset, train_tokenizer
from lib.tokens.vocabularies import from_vocabulary

TEXTS = [f"the {'very ' * (i % 9)}old cat number {i} sat" for i in range(60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    for shard in range(3):
        part = slice(20 * shard, 20 * shard + 20)
        ids = [f"a{i}" for i in range(60)[part]]
        pq.write_table(pa.table({"id": ids, "text": TEXTS[part]}), folder / f"shard-{shard}.parquet")
    labels = pa.array([i % 3 for i in range(60)], pa.int64())
    pq.write_table(
        pa.table({"id": [f"a{i}" for i in range(60)], "text": TEXTS, "label": labels}), folder / "labelled.parquet"
    )
    train_tokenizer(StoredTexts(shards(folder)), Tokenizer(source="trained", vocab_size=120), folder / "tokenizer")
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder):
    return TextTokenizer.load(folder / "tokenizer")


@pytest.fixture(scope="module")
def labelled(folder, tokenizer):
    tokenize(folder / "labelled.parquet", tokenizer, folder / "out")
    return folder / "out/train"


def tokenize(path, tokenizer, out, max_tokens=12):
    lengths = out.parent / "lengths.json"
    tokenize_dataset({"train": path}, tokenizer, max_tokens=max_tokens, folder=out, lengths=lengths)


def shards(folder):
    return [folder / f"shard-{shard}.parquet" for shard in range(3)]


def slices(short=25, long=10, held_out=5):
    lengths = {"short": 6, "long": 100, "held_out": 9}
    counts = {"short": short, "long": long, "held_out": held_out}
    return {name: Slice(articles=counts[name], max_tokens=lengths[name]) for name in counts}


def test_corpus_in_order(folder, tokenizer, tmp_path):
    tokenize_corpus(shards(folder), tokenizer, **slices(), folder=tmp_path, lengths=tmp_path / "lengths.json")
    tokens, held_out = load_tokens(tmp_path / "train"), load_tokens(tmp_path / "validation")
    assert tokens["id"][:] == [f"a{i}" for i in range(35)]
    assert held_out["id"][:] == [f"a{i}" for i in range(35, 40)]
    assert tokens["input_ids"][:25] == tokenizer.encode_ragged(TEXTS[:25], 6)
    assert tokens["input_ids"][25:] == tokenizer.encode_ragged(TEXTS[25:35], 100)
    assert held_out["input_ids"][:] == tokenizer.encode_ragged(TEXTS[35:40], 9)
    assert tokens["length"][:] == [len(ids) for ids in tokens["input_ids"]]
    assert str(tokens.features["input_ids"].feature.dtype) == "int32"
    assert "label" not in tokens.column_names
    statistics = json.loads((tmp_path / "lengths.json").read_text())
    assert list(statistics) == ["train", "train_short", "train_long", "validation"]
    assert [split["documents"] for split in statistics.values()] == [35, 25, 10, 5]
    assert statistics["train_short"]["at_limit"] == 1.0
    lengths, long = np.array(tokens["length"][25:]), statistics["train_long"]
    expected = [lengths.mean(), lengths.std(), np.median(lengths)]
    assert [long[name] for name in ("mean", "std", "median")] == pytest.approx(expected)
    assert (long["min"], long["max"], long["at_limit"]) == (lengths.min(), lengths.max(), 0.0)
    assert statistics["train"]["mean"] == pytest.approx(np.mean(tokens["length"][:]))


def test_corpus_too_small(folder, tokenizer, tmp_path):
    with pytest.raises(DataError, match="short.articles 50"):
        tokenize_corpus(
            shards(folder), tokenizer, **slices(short=50), folder=tmp_path, lengths=tmp_path / "lengths.json"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reach", [5, None])
def test_share_longer_than_reach(labelled, reach):
    tokens = load_tokens(labelled)
    longer = [reach is not None and len(ids) > reach for ids in tokens["input_ids"][:]]
    assert share_longer(tokens, reach) == sum(longer) / 60


@pytest.mark.parametrize("rows", [0, 1])
def test_source_without_a_document_or_a_label(tokenizer, tmp_path, rows):
    unlabelled = pa.table({"id": ["x"], "text": ["the cat"], "label": pa.array([None], pa.int64())})
    pq.write_table(unlabelled.slice(0, rows), tmp_path / "source.parquet")
    with pytest.raises(DataError, match="document x" if rows else "source.parquet"):
        tokenize(tmp_path / "source.parquet", tokenizer, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "lengths.json").exists()


def test_examples_with_their_key(labelled):
    dataset = TokenDataset(load_tokens(labelled))
    assert len(dataset) == 60
    assert dataset[5]["epoch"] == EVALUATION
    example = dataset[(3, 5)]
    assert (example["id"], example["label"], example["epoch"], example["index"]) == ("a5", 2, 3, 5)
    assert example["input_ids"].tolist() == load_tokens(labelled)["input_ids"][5]
    assert [e["id"] for e in dataset.__getitems__([(0, 9), 2])] == ["a9", "a2"]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_by_seed_and_epoch(labelled, tokenizer, workers):
    def epochs(first, workers, skip=0):
        dataset = TokenDataset(load_tokens(labelled))
        sampler = LengthGroupedSampler(load_tokens(labelled)["length"][:], 8, seed=1)
        collator = MlmCollator(TokenMasker.of(tokenizer.backend, seed=1), tokenizer.backend.pad_token_id)
        loader = DataLoader(dataset, batch_size=8, sampler=sampler, collate_fn=collator, num_workers=workers)
        for epoch in range(first, 2):
            sampler.set_epoch(epoch)
            yield from list(loader)[skip:]

    uninterrupted = list(epochs(0, 0))
    resumed = list(epochs(1, workers, skip=3))
    assert len(uninterrupted) == 16
    for left, right in zip(uninterrupted[8 + 3 :], resumed, strict=True):
        for name in left:
            assert torch.equal(left[name], right[name])
    assert not torch.equal(uninterrupted[0]["labels"], uninterrupted[8]["labels"])


@pytest.fixture
def pieces(tmp_path):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s", "-", "sat"]
    return from_vocabulary({token: i for i, token in enumerate(names)}, tmp_path / "pieces")


def tagged(path, **columns):
    rows = {
        "id": ["a", "b", "c"],
        "text": ["cats cat-sat sat", "sat cats", "cat cat cat cat sat"],
        "label": [[0, 2, 1], [-100, 2], [-100, -100, -100, -100, 1]],
        "group": [7, 8, 9],
    }
    pq.write_table(pa.table(rows | columns), path)
    return path


def test_labels_of_first_tokens(pieces, tmp_path, caplog):
    tokenize(tagged(tmp_path / "prepared.parquet"), pieces, tmp_path / "out", max_tokens=6)
    tokens = load_tokens(tmp_path / "out/train")
    assert tokens.column_names == ["id", "input_ids", "length", "labels", "group"]
    # [CLS] cat ##s cat - [SEP]; [CLS] sat cat ##s [SEP]; [CLS] cat cat cat cat [SEP]
    assert tokens["input_ids"][:] == [[2, 5, 6, 5, 7, 3], [2, 8, 5, 6, 3], [2, 5, 5, 5, 5, 3]]
    assert tokens["labels"][:] == [[-100, 0, -100, 2, -100, -100], [-100, -100, 2, -100, -100], [-100] * 6]
    assert tokens["group"][:] == [7, 8, 9]
    assert str(tokens.features["labels"].feature.dtype) == "int64"
    assert "2 of 5 labels have no token" in caplog.text
    example = TokenDataset(tokens)[1]
    assert example["labels"].tolist() == [-100, -100, 2, -100, -100]


def test_labels_without_a_token(pieces, tmp_path):
    path = tagged(tmp_path / "prepared.parquet", label=[[-100, -100, 1], [-100, 2], [-100] * 5])
    with pytest.raises(DataError):
        tokenize(path, pieces, tmp_path / "out", max_tokens=3)
    assert list((tmp_path / "out").iterdir()) == []


def test_document_without_a_token(tmp_path):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"]
    vocabulary = {token: i for i, token in enumerate(names)}
    rows = {"id": ["a", "b"], "text": ["cat", "\u200b"], "label": [0, 1]}
    pq.write_table(pa.table(rows), tmp_path / "prepared.parquet")
    bare = from_vocabulary(vocabulary, tmp_path / "bare", enclose=False)
    with pytest.raises(DataError, match="document b"):
        tokenize(tmp_path / "prepared.parquet", bare, tmp_path / "out")
    enclosed = from_vocabulary(vocabulary, tmp_path / "enclosed")
    tokenize(tmp_path / "prepared.parquet", enclosed, tmp_path / "out")
    assert load_tokens(tmp_path / "out/train")["input_ids"][:] == [[2, 5, 3], [2, 3]]


@pytest.fixture
def spans(tmp_path, tokenizer):
    """Tokenise texts with spans in windows of 6 tokens, 4 of them of the text, and return the split."""

    def write(texts, spans, split="train", **options):
        label = pa.array(spans, pa.list_(pa.list_(pa.int64())))
        ids = [f"d{n}" for n in range(len(texts))]
        pq.write_table(pa.table({"id": ids, "text": texts, "label": label}), tmp_path / "spans.parquet")
        options = {"max_tokens": 6, "folder": tmp_path / "out", "lengths": tmp_path / "lengths.json"} | options
        tokenize_dataset({split: tmp_path / "spans.parquet"}, tokenizer, **options)
        return load_tokens(tmp_path / "out" / split)

    return write


def test_windows_of_spans(spans, tmp_path):
    """Six words, each a token, so that windows begin with the first and the third; the span is `cat` and `sat`."""
    found = spans(["the old cat sat very very", "very"], [[[8, 15]], []])
    assert found["id"][:] == ["d0", "d0", "d1"]
    assert found["starts"][:] == [[0, 0, 4, 8, 12, 0], [0, 8, 12, 16, 21, 0], [0, 0, 0]]
    assert found["ends"][:] == [[0, 3, 7, 11, 15, 0], [0, 11, 15, 20, 25, 0], [0, 4, 0]]
    assert found["labels"][:] == [[-100, 0, 0, 1, 1, -100], [-100, 1, 1, 0, 0, -100], [-100, 0, -100]]
    assert found["spans"][:] == [[[8, 15]], [[8, 15]], []]
    assert found["characters"][:] == [25, 25, 4]
    assert found["length"][:] == [6, 6, 3]
    assert sorted(TokenDataset(found)[0]) == ["epoch", "id", "index", "input_ids", "labels"]
    lengths = json.loads((tmp_path / "lengths.json").read_text())["train"]
    assert (lengths["documents"], lengths["at_limit"]) == (3, pytest.approx(2 / 3))
    assert len(spans(["the old cat sat very very"], [[[8, 15]]], window_stride=1)) == 3


def test_spans_without_a_token(spans, caplog):
    spans(["the\x01 cat", "old"], [[[3, 4], [5, 8]], []])
    assert "1 of 2 labels have no token" in caplog.text
    with pytest.raises(DataError):
        spans(["the\x01 cat"], [[[3, 4]]])
    with pytest.raises(DataError):
        spans(["the cat"], [[]])
    with pytest.raises(ConfigError, match="window_stride = 5"):
        spans(["the cat"], [[[0, 3]]], window_stride=5)
