import pytest
import torch

from lib.backbones.encoder.settings import Settings as Encoder
from lib.measure.tables import COLUMNS
from lib.measure.token_lengths import typical_lengths
from lib.measure.training_cost import LENGTH, TrainingCase, training_cost

SMALL = Encoder(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)


def case(work, **changes):
    settings = {"implementation": "ours", "model": "sdpa", "mechanism": {"kind": "sdpa"}, "encoder": SMALL}
    sizes = {"batch": 2, "documents": 10, "device": "cpu", "dtype": "float32"}
    return TrainingCase(step=work, **(settings | sizes | changes))


def test_a_table_of_steps_and_epochs():
    favor = {"kind": "favor", "nb_features": 16}
    mechanisms = {"hybrid": [favor, {"kind": "sdpa"}], "sdpa": {"kind": "sdpa"}, "favor-m16": favor}
    table = training_cost(
        mechanisms, encoder=SMALL, batch=1, documents=4, document_batch=2, device="cpu", dtype="float32", repetitions=1
    )
    assert list(table) == COLUMNS["training_cost"]
    rows = list(table[["implementation", "model", "step"]].itertuples(index=False, name=None))
    assert rows == [
        ("transformers", "bert", "mlm"),
        ("ours", "hybrid", "mlm"),
        ("ours", "sdpa", "mlm"),
        ("ours", "favor-m16", "mlm"),
        ("transformers", "bert", "finetune_epoch_padded"),
        ("ours", "sdpa", "finetune_epoch_padded"),
        ("ours", "sdpa", "finetune_epoch"),
    ]
    assert (table[["median_ms", "tokens_per_s", "peak_mb"]] > 0).all(axis=None)
    assert set(table["tokens"][:4]) == {LENGTH}
    assert table["repetitions"].tolist() == [1] * 7
    assert set(table["tokens"][4:]) == {sum(typical_lengths("imdb", 4, LENGTH))}


def test_documents_are_as_long_as_reviews_of_imdb():
    lengths = typical_lengths("imdb", 2000, LENGTH)
    assert min(lengths) < 81
    assert max(lengths) == LENGTH
    assert sum(lengths) / len(lengths) == pytest.approx(263, abs=3)
    assert sum(length == LENGTH for length in lengths) / len(lengths) == pytest.approx(0.123, abs=0.01)


def test_an_epoch_sees_every_document_once_with_less_padding_in_batches_of_similar_length():
    short, padded = (case(work).prepare() for work in ("finetune_epoch", "finetune_epoch_padded"))
    for training in (short, padded):
        real = sum(batch.get("attention_mask", torch.ones_like(batch["input_ids"])).sum() for batch in training.batches)
        assert real == sum(case("finetune_epoch").lengths) == sum(typical_lengths("imdb", 10, LENGTH))
    assert sum(len(batch["labels"]) for batch in short.batches) == 10
    assert {batch["input_ids"].shape[1] for batch in padded.batches} == {LENGTH}
    sizes = [sum(batch["input_ids"].numel() for batch in training.batches) for training in (short, padded)]
    assert sizes[0] < 0.7 * sizes[1]


@pytest.mark.parametrize("model", ["sdpa", "bert"])
def test_training_learns(model):
    changes = {} if model == "sdpa" else {"implementation": "transformers", "model": "bert", "mechanism": None}
    training = case("mlm", **changes).prepare()
    before = [weight.detach().clone() for weight in training.model.parameters()]
    training()
    assert any((old != new).any() for old, new in zip(before, training.model.parameters(), strict=True))
