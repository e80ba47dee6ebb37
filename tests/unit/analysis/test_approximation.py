"""Approximations in the place of a model's mechanism, against models that have them there."""

import math

import numpy as np
import pytest
import torch
from encoder_cases import build, token_ids

from lib.analysis.computations.approximation import QUANTILES, approximations, attended, chance_recall
from lib.attention.approximation_error import chunk_numbers, window_mass
from lib.backbones.encoder.model import EncoderModel
from lib.core.randomness import derive_seed

LSH = {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}
FAVOR = {"kind": "favor", "nb_features": 8}
TEXTS = [token_ids(20, seed=1).tolist(), token_ids(30, seed=2).tolist()]
SHARP = {"initializer_range": 0.6}  # so that attention is not even


def model(mechanism, **changes):
    return build(EncoderModel, mechanism=mechanism, **SHARP, **changes).eval()


def found(encoder, texts=TEXTS, features=(8, 64), windows=((2, 4), (1, 4))):
    with torch.no_grad():
        return approximations(encoder, texts, list(features), list(windows))


def values(frame, quantity, column="value", **setting):
    """Return a number of each head [layers, heads]."""
    rows = frame[(frame["quantity"] == quantity) & frame["head"].notna()]
    for name, value in setting.items():
        rows = rows[rows[name] == value]
    return rows.pivot(index="layer", columns="head", values=column).to_numpy()


def twins(encoder, mechanism):
    """Yield every text, and a model with the encoder's weights and the draws that belong to the text."""
    for number, ids in enumerate(TEXTS):
        twin = model(mechanism, feature_seed=derive_seed("approximation", 0, number))
        twin.load_state_dict(
            {name: tensor for name, tensor in encoder.state_dict().items() if "features" not in name}, strict=False
        )
        yield ids, twin


def first_layer(encoder, ids):
    """Return queries, keys, values [H, N, d] and output [H, N, d] of the first layer's mechanism, as it meets them."""
    met = []
    attention = encoder.layers[0].attention.mechanism
    hook = attention.register_forward_hook(lambda _, inputs, output: met.append((*inputs[:3], output)))
    with torch.no_grad():
        encoder(input_ids=torch.tensor([ids]))
    hook.remove()
    return [tensor[0].double() for tensor in met[0]]


def frobenius(rows):
    return rows.square().sum((-2, -1)).sqrt()


def test_favor_errs_as_it_does_in_a_model_with_the_same_weights():
    """Each document has draws of its own."""
    exact = model({"kind": "sdpa"})
    expected = []
    for ids, favor in twins(exact, FAVOR):
        (*_, wanted), (*_, value, output) = first_layer(exact, ids), first_layer(favor, ids)
        assert torch.equal(first_layer(exact, ids)[2], value)
        expected.append((frobenius(output - wanted) / frobenius(wanted)).tolist())
    frame = found(exact)
    assert values(frame, "favor_error", features=8)[0] == pytest.approx(np.mean(expected, axis=0), rel=1e-4)
    assert values(frame, "favor_error", features=64).mean() < values(frame, "favor_error", features=8).mean()


def test_a_models_own_error_is_that_of_its_own_draws():
    encoder = model(FAVOR)
    expected = []
    for ids in TEXTS:
        query, key, value, output = first_layer(encoder, ids)
        exact = (query @ key.mT / math.sqrt(query.shape[2])).softmax(-1) @ value
        expected.append((frobenius(output - exact) / frobenius(exact)).tolist())
    frame = found(encoder)
    assert values(frame, "own_error", features=8)[0] == pytest.approx(np.mean(expected, axis=0), rel=1e-4)
    assert values(frame, "own_error") != pytest.approx(values(frame, "favor_error", features=8), rel=0.01)
    assert values(found(model({"kind": "sdpa"})), "own_error") == pytest.approx(0, abs=1e-12)


def test_the_mean_of_all_values_is_what_favor_has_to_surpass():
    encoder = model({"kind": "sdpa"})
    expected = []
    for ids in TEXTS:
        _, _, value, wanted = first_layer(encoder, ids)
        expected.append((frobenius(value.mean(1, keepdim=True) - wanted) / frobenius(wanted)).tolist())
    frame = found(encoder)
    for features in (8, 64):
        chance = values(frame, "favor_error", "chance", features=features)
        assert chance[0] == pytest.approx(np.mean(expected, axis=0), rel=1e-4)


def test_lsh_reaches_what_its_matrix_shows_and_errs_by_it():
    """Where queries serve as keys, no token is its own key."""
    encoder = model(LSH)
    recall, errors = [], []
    for ids, twin in twins(encoder, LSH):
        query, _, value, output = first_layer(encoder, ids)
        same = query.float()[None]
        seen = twin.layers[0].attention.mechanism.weights(same, same)[0] > 0
        scores = query @ query.mT / math.sqrt(query.shape[2])
        exact = scores.masked_fill(torch.eye(len(ids), dtype=torch.bool), -math.inf).softmax(-1)
        recall.append(((exact * seen).sum((1, 2)) / len(ids)).tolist())
        errors.append((frobenius(output - exact @ value) / frobenius(exact @ value)).tolist())
    frame = found(encoder)
    assert values(frame, "lsh_recall", hashes=2, chunk_size=4)[0] == pytest.approx(np.mean(recall, axis=0), rel=1e-5)
    assert values(frame, "own_error", hashes=2, chunk_size=4)[0] == pytest.approx(np.mean(errors, axis=0), rel=1e-4)
    assert 0.3 < np.mean(recall) < 0.999


def test_one_window_over_all_reaches_everything():
    for mechanism in ({"kind": "sdpa"}, LSH):
        frame = found(model(mechanism), windows=[(1, 32)])
        assert values(frame, "lsh_recall") == pytest.approx(1)
        assert values(frame, "lsh_recall", "chance") == pytest.approx(1)


def test_queries_and_keys_apart_are_each_sorted_among_themselves():
    """With both projections alike, queries meet the keys that hash as they do, and themselves."""
    encoder = model({"kind": "sdpa"}, position_embedding_type="sinusoidal")
    before = values(found(encoder), "lsh_recall", hashes=1, chunk_size=4)
    for layer in encoder.layers:
        layer.attention.key.load_state_dict(layer.attention.query.state_dict())
    after = found(encoder)
    chance = values(after, "lsh_recall", "chance", hashes=1, chunk_size=4)
    recall = values(after, "lsh_recall", hashes=1, chunk_size=4)
    assert (recall > 1.2 * chance).all()
    assert recall.mean() > before.mean()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("tokens", "rounds", "size"), [(20, 1, 4), (23, 2, 4), (9, 3, 8), (6, 2, 8)])
def test_chance_is_what_random_orders_give(shared, tokens, rounds, size):
    generator = torch.Generator().manual_seed(0)

    def order():
        codes = torch.rand(2000, rounds, tokens, generator=generator)
        return chunk_numbers(codes, size)

    weights = torch.ones(2000, tokens, tokens)
    if shared:
        weights.diagonal(dim1=1, dim2=2).fill_(0)
    queries = order()
    reached = window_mass(weights, queries, queries if shared else order(), [rounds])[:, 0].mean().item()
    expected = chance_recall(tokens, rounds, size, shared=shared)
    assert reached / weights[0].sum().item() == pytest.approx(expected, rel=0.01)


def test_norms_are_those_of_all_tokens_of_a_layer_and_of_a_head():
    encoder = model({"kind": "sdpa"})
    frame = found(encoder)
    parts = [first_layer(encoder, ids) for ids in TEXTS]
    for place, quantity in enumerate(("query_norm", "key_norm")):
        norms = torch.cat([part[place].norm(dim=-1) for part in parts], dim=1).numpy()
        rows = frame[(frame["quantity"] == quantity) & (frame["layer"] == 0)]
        assert rows.loc[rows["head"].isna(), "value"].tolist() == pytest.approx(np.quantile(norms, QUANTILES))
        assert rows.loc[rows["head"] == 1, "value"].tolist() == pytest.approx(np.quantile(norms[1], QUANTILES))
        assert rows.loc[rows["head"] == 1, "quantile"].tolist() == list(QUANTILES)


def test_alibi_counts_as_part_of_exact_attention():
    encoder = model({"kind": "sdpa", "use_native_sdpa": False}, position_embedding_type="alibi")
    assert values(found(encoder, windows=[]), "own_error") == pytest.approx(0, abs=1e-12)


def test_a_document_leaves_no_hooks_and_gives_every_layer_in_order():
    encoder = model(LSH)
    with torch.no_grad():
        layers = [(layer, key is query) for layer, _, query, key, _ in attended(encoder, TEXTS[0])]
    assert layers == [(0, True), (1, True)]
    assert not any(module._forward_pre_hooks for module in encoder.modules())


def test_every_number_stands_once():
    frame = found(model(FAVOR))
    assert not frame.duplicated(["layer", "head", "quantity", "features", "hashes", "chunk_size", "quantile"]).any()
    # Per layer: two norms of two heads and of both, at five quantiles; two numbers of features, two windows, own.
    assert len(frame) == 2 * (2 * 3 * 5 + 2 * (2 + 2 + 1))
    assert frame["value"].notna().all()
