"""The recurrent encoder beyond what every backbone owes: torch's own layers, padding anywhere, counts, refusals."""

import json

import pytest
import torch
from encoder_cases import fresh_python, token_ids
from transformers import BertTokenizer

from lib.backbones.heads.masked_lm import MaskedLM
from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.heads.token_classification import TokenClassification
from lib.backbones.recurrent.backbone import Backbone
from lib.backbones.recurrent.configuration import RecurrentConfig
from lib.backbones.recurrent.model import RecurrentModel
from lib.backbones.recurrent.settings import Settings
from lib.core.errors import RunError
from lib.tasks.sequence_classification import Settings as Classification
from lib.training.record import count_parameters

GATES = {"rnn": 1, "lstm": 4, "gru": 3}
TORCH = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
every_cell = pytest.mark.parametrize("cell", GATES)


def build(model_class=RecurrentModel, seed=0, **changes):
    torch.manual_seed(seed)
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2}
    return model_class(RecurrentConfig(**sizes | changes)).eval()


@every_cell
def test_the_layers_are_those_of_torch(cell):
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
def test_padding_may_stand_anywhere(cell):
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


def test_a_row_of_padding_leaves_gradients_finite():
    model = build().train()
    embedded = torch.randn(2, 5, 16, requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 0, 0], [0] * 5])
    model(inputs_embeds=embedded, attention_mask=mask).last_hidden_state.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.layers.parameters())
    assert embedded.grad[mask == 0].eq(0).all()


@every_cell
def test_layers_compute_in_float32_whatever_the_precision(cell):
    model, ids, mask = build(cell=cell), token_ids(2, 9), torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(ids, mask).last_hidden_state
    assert mixed.dtype == torch.float32
    assert torch.equal(mixed, model(ids, mask).last_hidden_state)


def test_both_directions_are_read():
    model, ids = build(num_hidden_layers=1), token_ids(1, 6)
    other = ids.clone()
    other[0, 3] = (other[0, 3] + 1) % 50
    before, after = (model(each).last_hidden_state[0] for each in (ids, other))
    changed = (before != after).reshape(6, 2, 8).any(dim=-1)
    assert changed[:, 0].tolist() == [False] * 3 + [True] * 3  # what comes before a token
    assert changed[:, 1].tolist() == [True] * 4 + [False] * 2  # what comes after it


@every_cell
def test_one_direction_has_the_whole_width_and_knows_nothing_of_what_follows(cell):
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


def test_directions_are_part_of_what_must_agree_and_the_default_is_not_written():
    one, both = Settings(bidirectional=False), Settings()
    assert list(one.takeover_errors(both)) == ["bidirectional is False, but the weights come from True"]
    assert one.model_dump()["bidirectional"] is False
    assert "bidirectional" not in both.model_dump()
    assert RecurrentConfig(**both.model_dump(exclude={"kind"})).parameters == both
    products = [parameters.products_per_token(1, 0) for parameters in (one, both)]
    assert products == [2 * 4 * 512 * 1024, 2 * 2 * 4 * 256 * 768]


@every_cell
@pytest.mark.parametrize("changes", [{}, {"hidden_size": 24, "num_hidden_layers": 3, "tie_word_embeddings": False}])
def test_counts_are_those_of_the_dimensions(cell, changes):
    config = RecurrentConfig(**{"cell": cell, "vocab_size": 50, "hidden_size": 16, "num_labels": 5} | changes)
    width, half, words = config.hidden_size, config.hidden_size // 2, config.vocab_size
    # Per direction and gate: input and state to state, a bias for each (torch has two).
    layer = 2 * GATES[cell] * (half * width + half * half + 2 * half)
    parts = {"embeddings": words * width, "norms": 2 * width, "recurrence": config.num_hidden_layers * layer}
    backbone = sum(parts.values())
    decoder = words + (0 if config.tie_word_embeddings else words * width)
    heads = {
        MaskedLM.on(RecurrentModel): width * width + width + 2 * width + decoder,
        SequenceClassification.on(RecurrentModel): width * width + width + 5 * width + 5,
        TokenClassification.on(RecurrentModel): 5 * width + 5,
    }
    for model_class, head in heads.items():
        with torch.device("meta"):
            model = model_class(config)
        assert count_parameters(model) == {"total": backbone + head, "backbone": backbone, **parts, "head": head}
    products = Settings(cell=cell, hidden_size=width, num_hidden_layers=config.num_hidden_layers)
    weights = 2 * GATES[cell] * (half * width + half * half) * config.num_hidden_layers
    assert products.products_per_token(100, 0.0) == products.products_per_token(4096, 0.0) == weights


@every_cell
def test_layers_begin_as_in_torch_and_the_rest_as_in_the_encoder(cell):
    model = build(
        TokenClassification.on(RecurrentModel), cell=cell, hidden_size=64, vocab_size=500, initializer_range=0.1
    )
    for weight in model.recurrent.layers.parameters():
        assert 0 < weight.abs().max() <= 32**-0.5
        if weight.ndim == 2:
            assert weight.std().item() == pytest.approx((32 * 3) ** -0.5, rel=0.15)  # of a uniform distribution
    assert model.recurrent.embeddings.word_embeddings.weight.std().item() == pytest.approx(0.1, rel=0.05)
    assert model.head[1].weight.std().item() == pytest.approx(0.1, rel=0.2)
    assert model.head[1].bias.eq(0).all()


@pytest.mark.parametrize("field", ["embedding_dropout", "layer_dropout"])
def test_each_dropout_acts_in_training_alone(field):
    model = build(**{"embedding_dropout": 0.0, "layer_dropout": 0.0, field: 0.5}).train()
    ids = token_ids(1, 9)
    assert not torch.equal(*(model(ids).last_hidden_state for _ in range(2)))
    model.eval()
    assert torch.equal(*(model(ids).last_hidden_state for _ in range(2)))


def test_dropout_between_layers_leaves_the_last_one_alone():
    model = build(layer_dropout=0.9, embedding_dropout=0.0).train()
    states = model(token_ids(1, 30), output_hidden_states=True).hidden_states
    assert not any(each.eq(0).any() for each in states)
    single = build(num_hidden_layers=1, embedding_dropout=0.0).train()
    assert torch.equal(*(single(token_ids(1, 9)).last_hidden_state for _ in range(2)))


def test_config_has_the_fields_and_defaults_of_the_settings():
    config = RecurrentConfig().to_dict()
    for settings in (Settings(), Classification(kind="sequence_classification")):
        for name, value in settings.model_dump(exclude={"kind"}).items():
            assert config[name] == value, name
    assert RecurrentConfig(cell="gru").parameters == Settings(cell="gru")


def test_what_the_study_asks_of_a_backbone():
    parameters = Settings(cell="gru", num_hidden_layers=3)
    assert parameters.family == "gru"
    assert parameters.blocks() == 3
    assert parameters.longest() is None
    assert parameters.abilities == {"states"}
    assert not parameters.takes_mechanism
    assert list(parameters.takeover_errors(Settings(cell="gru", num_hidden_layers=3, layer_dropout=0.5))) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 15}, "hidden_size = 15 is odd, but each direction takes half"),
        ({"cell": "tree"}, "'rnn', 'lstm' or 'gru'"),
    ],
)
def test_settings_that_cannot_be_honoured(changes, message):
    with pytest.raises(ValueError, match=message):
        RecurrentConfig(**changes)


def test_refusals():
    model = build()
    with pytest.raises(ValueError, match="output_attentions"):
        model(token_ids(1, 3), output_attentions=True)
    with pytest.raises(ValueError, match="input_ids and inputs_embeds"):
        model()
    with pytest.raises(TypeError, match="token_type_ids"):
        model(token_ids(1, 3), token_type_ids=torch.zeros(1, 3, dtype=torch.long))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": "gru"}, "cell is gru, but the weights come from lstm"),
        (
            {"hidden_size": 24, "num_hidden_layers": 3},
            "hidden_size is 24, .* from 16; num_hidden_layers is 3, .*from 2",
        ),
        ({"vocab_size": 60}, r"word_embeddings\.weight: expected \[60, 16\], found \[50, 16\].*same tokeniser"),
    ],
)
def test_other_weights_are_refused(tmp_path, changes, message):
    build(MaskedLM.on(RecurrentModel), seed=1).save_pretrained(tmp_path)
    model = build(MaskedLM.on(RecurrentModel), seed=2, **changes)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(RunError, match=message):
        Backbone(Settings(), seed=0).load_weights(model, tmp_path)
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in before.items())


PIPELINE = """
import json, sys
import lib
from transformers import pipeline
print(json.dumps(pipeline("text-classification", model=sys.argv[1])(["a good film", "a bad one"], batch_size=2)))
"""


def test_pipeline_after_import_lib(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "one"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = BertTokenizer.from_pretrained(tmp_path, model_input_names=["input_ids", "attention_mask"])
    model = build(
        SequenceClassification.on(RecurrentModel), vocab_size=len(words), id2label={0: "poor", 1: "fine", 2: "great"}
    )
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    results = json.loads(fresh_python(PIPELINE, tmp_path / "model"))
    inputs = tokenizer(["a good film", "a bad one"], return_tensors="pt", padding=True)
    expected = model(**inputs).logits.softmax(-1).max(-1)
    assert [result["label"] for result in results] == [model.config.id2label[i] for i in expected.indices.tolist()]
    assert [result["score"] for result in results] == pytest.approx(expected.values.tolist(), abs=1e-5)
