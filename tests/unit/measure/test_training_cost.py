from functools import partial

import pytest
import torch

from lib.attention.contract import mechanisms
from lib.backbones.encoder.settings import Settings as Encoder
from lib.measure import comparison
from lib.measure.compared import IN_ADDITION_TO_THE_GRID
from lib.measure.cost import interleaved
from lib.measure.encoder_cost import NO_DROPOUT
from lib.measure.tables import COLUMNS, LEAST
from lib.measure.token_lengths import typical_lengths
from lib.measure.training_cost import LENGTH, TrainingCase, training_cases, training_cost

SMALL = Encoder(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
SIZES = {"encoder": SMALL, "documents": 4, "device": "cpu", "dtype": "float32"}
EVERY_STEP = ("mlm", "finetune_epoch_padded", "finetune_epoch")


def case(work, **changes):
    settings = {"implementation": "ours", "model": "sdpa", "mechanism": {"kind": "sdpa"}, "encoder": SMALL}
    sizes = {"batch": 2, "documents": 10, "device": "cpu", "dtype": "float32"}
    return TrainingCase(step=work, **(settings | sizes | changes))


def test_a_table_of_steps_and_epochs():
    favor = {"kind": "favor", "nb_features": 16}
    mechanisms = {"hybrid": [favor, {"kind": "sdpa"}], "sdpa": {"kind": "sdpa"}, "ssm": {"kind": "ssm"}}
    work = {"lengths": [32, 64], "batch": 2, "document_batch": 2, "steps": EVERY_STEP}
    table = training_cost(mechanisms, repetitions=1, compile=False, **work, **SIZES)
    assert list(table) == COLUMNS["training_cost"]
    rows = list(table[["implementation", "model", "step", "length"]].itertuples(index=False, name=None))
    assert rows == [
        *((owner, model, "mlm", length) for length in (32, 64) for owner, model in [
            ("transformers", "bert"), ("ours", "hybrid"), ("ours", "sdpa"), ("ours", "ssm")
        ]),
        ("transformers", "bert", "finetune_epoch_padded", LENGTH),
        ("ours", "sdpa", "finetune_epoch_padded", LENGTH),
        ("ours", "sdpa", "finetune_epoch", LENGTH),
    ]  # fmt: skip
    assert (table[["median_ms", "tokens_per_s", "peak_mb"]] > 0).all(axis=None)
    assert table["tokens"][:8].tolist() == [64] * 4 + [128] * 4
    assert table["repetitions"].tolist() == [1] * 8 + [LEAST] * 3
    assert set(table["tokens"][8:]) == {sum(typical_lengths("imdb", 4, LENGTH))}
    assert (table["min_ms"] <= table["max_ms"]).all()


def test_compiled_blocks_learn_the_same_and_count_the_operations_of_those_that_are_not():
    changes = {"encoder": SMALL.model_copy(update=NO_DROPOUT), "length": 32}
    cases = [case("mlm", compiled=compiled, **changes) for compiled in (False, True)]
    losses = []
    for each in cases:
        training = each.prepare()
        training()
        losses.append(training.loss(training.batches[0]).item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    turns = partial(interleaved, repetitions=1, device=torch.device("cpu"))
    plain, compiled = comparison.compare(cases, turns)
    assert (plain["compiled"], compiled["compiled"]) == (False, True)
    assert compiled["gemm_share"] * compiled["median_ms"] == pytest.approx(plain["gemm_share"] * plain["median_ms"])


@pytest.mark.parametrize("there", [False, True])
def test_on_a_gpu_what_computes_fastest_is_compiled(monkeypatch, there):
    monkeypatch.setattr(comparison, "has_kernels", lambda kind: there and kind == "window")
    cases = training_cases(
        {"sdpa": {"kind": "sdpa"}} | IN_ADDITION_TO_THE_GRID, lengths=[128], batch=4, document_batch=4, compile=True,
        **SIZES | {"device": "cuda"},
    )  # fmt: skip
    ways = {}
    for each in cases:
        ways.setdefault((each.model, each.step), []).append((each.kernels, each.compiled))
    plain = [("torch", False), ("torch", True)]
    by_triton = [("torch", False), ("triton", False), ("triton", True)]
    assert ways["window-w256-g0", "mlm"] == (by_triton if there else plain)
    assert ways["sdpa", "mlm"] == ways["bert", "mlm"] == plain
    assert {model for model, step in ways if step == "finetune_epoch"} == {"bert", "sdpa"}
    assert {model for model, step in ways if step == "mlm"} == {"bert", "sdpa", "window-w256-g0", "ssm"}


def test_the_next_step_draws_other_rotations():
    training = case("mlm", mechanism={"kind": "lsh", "num_hashes": 1, "chunk_size": 16}, length=32).prepare()
    for taken in (1, 2):
        training()
        assert {each.step for each in mechanisms(training.model)} == {taken}


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


@pytest.mark.parametrize("step", ["mlm", "finetune_epoch"])
@pytest.mark.parametrize("model", ["sdpa", "ssm", "bert"])
def test_training_learns(model, step):
    changes = (
        {"implementation": "transformers", "mechanism": None} if model == "bert" else {"mechanism": {"kind": model}}
    )
    training = case(step, model=model, **changes).prepare()
    before = [weight.detach().clone() for weight in training.model.parameters()]
    training()
    assert any((old != new).any() for old, new in zip(before, training.model.parameters(), strict=True))
