"""The recurrent encoder beyond what every backbone owes: torch's own layers, padding anywhere."""

import pytest
import torch
from encoder_cases import token_ids

from lib.backbones.recurrent.configuration import RecurrentConfig
from lib.backbones.recurrent.model import RecurrentModel
from lib.backbones.recurrent.settings import Settings

GATES = {"rnn": 1, "lstm": 4, "gru": 3}
TORCH = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
every_cell = pytest.mark.parametrize("cell", GATES)


def build(model_class=RecurrentModel, seed=0, **changes):
    torch.manual_seed(seed)
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2}
    return model_class(RecurrentConfig(**sizes | changes)).eval()


@every_cell
def test_layers_of_torch(cell):
    """One module of torch with all layers, the same weights, and a document at a time."""
    model = build(cell=cell, num_hidden_layers=3)
    reference = TORCH[cell](16, 8, num_layers=3, batch_first=True, bidirectional=True)
    weights = {
        name.replace("_l0", f"_l{number}"): weight
        for number, layer in enumerate(model.layers)
        for name, weight in layer.state_dict().items()
    }
    reference.load_state_dict(weights)
    ids = token_ids(1, 12)
    expected, _ = reference(model.embeddings.layer_norm(model.embeddings.word_embeddings(ids)))
    torch.testing.assert_close(model(ids).last_hidden_state, expected, atol=1e-6, rtol=1e-5)
    mask = torch.ones_like(ids)
    torch.testing.assert_close(model(ids, mask).last_hidden_state, expected, atol=1e-6, rtol=1e-5)


@every_cell
def test_padding_anywhere(cell):
    """At the beginning, between tokens, everywhere: what is real is read as if there were nothing else."""
    model = build(cell=cell)
    ids = token_ids(4, 7)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1, 0], [0] * 7, [1] * 7])
    outputs = model(ids, mask, output_hidden_states=True)
    for row in range(4):
        real = mask[row].bool()
        for states in outputs.hidden_states[1:]:
            assert states[row, ~real].eq(0).all()
        if real.any():
            alone = model(ids[row, real][None]).last_hidden_state[0]
            torch.testing.assert_close(outputs.last_hidden_state[row, real], alone, atol=1e-6, rtol=1e-5)


def test_layers_under_autocast():
    model, ids, mask = build(cell="gru"), token_ids(2, 9), torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(ids, mask).last_hidden_state
    assert mixed.dtype == torch.float32
    assert torch.equal(mixed, model(ids, mask).last_hidden_state)


@every_cell
def test_one_direction(cell):
    model, ids = build(cell=cell, bidirectional=False, hidden_size=15), token_ids(2, 6)
    reference = TORCH[cell](15, 15, batch_first=True)
    reference.load_state_dict(model.layers[0].state_dict())
    embedded = model.embeddings.layer_norm(model.embeddings.word_embeddings(ids))
    close = {"atol": 1e-6, "rtol": 0}
    torch.testing.assert_close(model(ids, output_hidden_states=True).hidden_states[1], reference(embedded)[0], **close)
    other = ids.clone()
    other[:, 3] = (other[:, 3] + 1) % 50
    before, after = (model(each).last_hidden_state for each in (ids, other))
    assert (before != after).any(dim=-1).tolist() == [[False] * 3 + [True] * 3] * 2
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    torch.testing.assert_close(model(ids, mask).last_hidden_state[1, :4], before[1, :4], **close)


def test_usual_direction_is_left_out():
    """So that runs of before stay the same."""
    one, both = Settings(bidirectional=False), Settings()
    assert one.model_dump()["bidirectional"] is False
    assert "bidirectional" not in both.model_dump()
    assert RecurrentConfig(**both.model_dump(exclude={"kind"})).parameters == both


def test_dropouts():
    """Each acts in training alone, and that between layers leaves the last one alone."""
    ids = token_ids(1, 9)
    for field in ("embedding_dropout", "layer_dropout"):
        model = build(**{"embedding_dropout": 0.0, "layer_dropout": 0.0, field: 0.5}).train()
        assert not torch.equal(*(model(ids).last_hidden_state for _ in range(2)))
        model.eval()
        assert torch.equal(*(model(ids).last_hidden_state for _ in range(2)))
    model = build(layer_dropout=0.9, embedding_dropout=0.0).train()
    states = model(token_ids(1, 30), output_hidden_states=True).hidden_states
    assert not any(each.eq(0).any() for each in states)
    single = build(num_hidden_layers=1, embedding_dropout=0.0).train()
    assert torch.equal(*(single(token_ids(1, 9)).last_hidden_state for _ in range(2)))
