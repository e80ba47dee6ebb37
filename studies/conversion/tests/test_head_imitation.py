"""The head of imitation: its loss, and a teacher that is no part of the model."""

import pytest
import torch
from transformers import AutoModelForPreTraining

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.heads.model import squared_error
from lib.core.errors import RunError
from studies.conversion.attention.hedgehog import reference as hedgehog
from studies.conversion.attention.lolcats import reference as lolcats

FAVOR = {"kind": "favor", "nb_features": 8}
LENGTHS = (9, 1, 5, 7)


def model(mechanism=None, seed=0, every_layer=False, **sizes):
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32} | sizes
    config = EncoderConfig(mechanism=mechanism, vocab_size=30, initializer_range=0.3, **sizes)
    made = AutoModelForPreTraining.from_config(config).eval()
    made.every_layer = every_layer
    return made


@pytest.fixture(params=[False, True], ids=["last", "all"])
def student(request):
    """With FAVOR+ and a teacher with exact attention, both with the same weights."""
    made, teacher = model(FAVOR, every_layer=request.param), model()
    made.load_state_dict(teacher.state_dict(), strict=False)
    made.learn_from(teacher)
    made.own_teacher = (teacher,)
    return made


def batch(padding=0, filler=0):
    ids = torch.randint(1, 30, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(1))
    ids = torch.nn.functional.pad(ids, (0, padding))
    mask = (torch.arange(ids.shape[1]) < torch.tensor(LENGTHS)[:, None]).long()
    labels = ids.masked_fill(mask == 0, -100)
    return {"input_ids": ids.masked_fill(mask == 0, filler), "attention_mask": mask, "labels": labels}


def assert_learns(student, optimiser, steps):
    losses = []
    for _ in range(steps):
        loss = student(**batch()).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_loss_of_states_document_by_document(student):
    """Document by document, without padding, in plain arithmetic."""
    (teacher,) = student.own_teacher
    values, errors = batch(), []
    for ids, length in zip(values["input_ids"], LENGTHS, strict=True):
        own, other = (
            each.base_model(ids[None, :length], output_hidden_states=True).hidden_states for each in (student, teacher)
        )
        pairs = [*zip(own, other, strict=True)]
        pairs = pairs[1:] if student.every_layer else pairs[-1:]
        errors.append(torch.stack([(first - second)[0].square().mean(dim=-1) for first, second in pairs]).mean(dim=0))
    expected = torch.cat(errors)
    assert len(expected) == sum(LENGTHS)
    found = student(**values)
    assert found.loss.item() == pytest.approx(expected.mean().item(), rel=1e-5)
    assert found.loss.item() > 1e-3
    doubled = student(**values, num_items_in_batch=torch.tensor(2 * sum(LENGTHS))).loss
    assert doubled.item() == pytest.approx(found.loss.item() / 2)


def test_loss_of_states_with_other_padding(student):
    plain, padded = student(**batch()).loss, student(**batch(30, 7)).loss
    assert padded.item() == pytest.approx(plain.item(), rel=1e-5)


def test_gradient_of_padding(student):
    states = {}
    layer = student.base_model.layers[-1]
    layer.register_forward_hook(lambda module, inputs, output: states.update(last=output) or output.retain_grad())
    values = batch(padding=2)
    student(**values).loss.backward()
    gradient = states["last"].grad.abs().sum(dim=-1)
    assert torch.equal(gradient > 0, values["attention_mask"].bool())


def test_loss_of_a_student_like_its_teacher():
    for every_layer in (False, True):
        student = model(seed=3, every_layer=every_layer)
        student.learn_from(model(seed=3))
        assert student(**batch()).loss.item() < 1e-12
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert student(**batch()).loss.item() < 1e-12


def test_teacher_after_training(student):
    (teacher,) = student.own_teacher
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    assert student.state_dict().keys() - teacher.state_dict().keys() == {
        f"encoder.layers.{layer}.attention.mechanism.features" for layer in range(3)
    }
    assert not {*student.modules()} & {*teacher.modules()}
    assert_learns(student, torch.optim.AdamW(student.train().parameters(), lr=1e-2), 5)
    assert not any(module.training for module in teacher.base_model.modules())
    assert all(weight.grad is None for weight in teacher.base_model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())


def test_teacher_of_another_size():
    with pytest.raises(RunError, match="hidden_size is 32"):
        model().learn_from(model(hidden_size=32))
    with pytest.raises(RunError, match="num_hidden_layers is 1"):
        model(every_layer=True).learn_from(model(num_hidden_layers=1))
    model().learn_from(model(num_hidden_layers=1))


def test_squared_error_of_parts_of_a_batch():
    generator = torch.Generator().manual_seed(0)
    states, targets = torch.randn(2, 6, 3, generator=generator)
    whole = squared_error(states, targets)
    assert whole.item() == pytest.approx((states - targets).square().mean().item())
    parts = sum(squared_error(states[part], targets[part], 6) for part in (slice(0, 2), slice(2, 6)))
    assert parts.item() == pytest.approx(whole.item())


LEARNED = {
    "hedgehog": ({"kind": "hedgehog"}, hedgehog.reference),
    "exp": ({"kind": "hedgehog", "phi": "exp"}, hedgehog.reference),
    "lolcats": ({"kind": "lolcats", "block_size": 2, "window_blocks": 1}, lolcats.reference),
}
POSITIONS = {"position_embedding_type": "sinusoidal"}
"""Without rotations, queries and keys are plain projections of a layer's input."""


def matching(match, name="hedgehog", **sizes):
    """Return a student whose mechanisms have learnt something, and its teacher, with the same other weights."""
    student, teacher = model(LEARNED[name][0], **POSITIONS, **sizes), model(**POSITIONS, **sizes)
    student.load_state_dict(teacher.state_dict(), strict=False)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for key, weight in student.named_parameters():
            if ".mechanism." in key:
                weight.add_(torch.randn(weight.shape, generator=generator) / 2)
    student.match = match
    student.learn_from(teacher)
    return student, teacher


def layers_of(teacher, ids):
    """Yield queries, keys and values of each layer of the teacher on a document, in float64 [1, H, N, d]."""
    states = teacher.base_model(ids[None], output_hidden_states=True).hidden_states
    for layer, before in zip(teacher.base_model.layers, states[:-1], strict=True):
        attention = layer.attention
        projected = (getattr(attention, name)(before) for name in ("query", "key", "value"))
        yield [rows.unflatten(2, (2, -1)).transpose(1, 2).double() for rows in projected]


def recomputed(student, teacher, match, reference):
    """Return the loss of each real token, document by document, from dense weights in float64."""
    found = []
    for ids, length in zip(batch()["input_ids"], LENGTHS, strict=True):
        of_layers = []
        for layer, (query, key, value) in enumerate(layers_of(teacher, ids[:length])):
            mechanism = student.base_model.layers[layer].attention.mechanism
            identity = torch.eye(length, dtype=torch.float64).expand(1, 2, length, length)
            own = reference(mechanism, query, key, identity, torch.ones(1, length))
            exact = (query @ key.mT / 8**0.5).softmax(-1)
            if match == "outputs":
                of_layers.append(((own - exact) @ value).square().mean(dim=(1, 3))[0])
            else:
                of_layers.append(-(exact * own.log()).sum(-1).mean(dim=1)[0])
        found.append(torch.stack(of_layers).mean(dim=0))
    return torch.cat(found)


@pytest.mark.parametrize(
    ("name", "match", "training"),
    [
        ("hedgehog", "outputs", False),
        ("hedgehog", "weights", True),
        ("exp", "weights", False),
        ("lolcats", "outputs", True),
    ],
)
def test_loss_of_attention_by_dense_weights(name, match, training):
    student, teacher = matching(match, name)
    student.train(training)
    found = student(**batch())
    expected = recomputed(student, teacher, match, LEARNED[name][1])
    assert len(expected) == sum(LENGTHS)
    assert found.loss.item() == pytest.approx(expected.mean().item(), rel=1e-5)
    assert found.loss.item() > 1e-3
    assert (found.last_hidden_state is None) == training
    doubled = student(**batch(), num_items_in_batch=torch.tensor(2 * sum(LENGTHS))).loss
    assert doubled.item() == pytest.approx(found.loss.item() / 2)
    weights = {key: each for key, each in student.named_parameters() if each.requires_grad}
    assert weights
    assert all(".mechanism." in key for key in weights)
    gradients = torch.autograd.grad(student(**batch()).loss, [*weights.values()])
    truth = torch.autograd.grad(expected.mean(), [*weights.values()])
    for own, other in zip(gradients, truth, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize(("match", "name"), [("outputs", "hedgehog"), ("weights", "lolcats")])
def test_loss_of_attention_with_other_padding(match, name):
    student, _ = matching(match, name)
    plain, padded = student(**batch()).loss, student(**batch(30, 7)).loss
    assert padded.item() == pytest.approx(plain.item(), rel=1e-5)


def test_weights_that_matched_attention_trains():
    student, teacher = matching("outputs")
    before = {name: tensor.clone() for name, tensor in student.state_dict().items()}
    optimiser = torch.optim.AdamW([each for each in student.train().parameters() if each.requires_grad], lr=3e-2)
    assert_learns(student, optimiser, 8)
    moved = {name for name, tensor in student.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved == {name for name in before if ".mechanism." in name}
    assert not any(each.requires_grad or each.grad is not None for each in teacher.base_model.parameters())


@pytest.mark.parametrize(
    ("student", "teacher", "message"),
    [
        (FAVOR, None, "match: outputs"),
        (LEARNED["hedgehog"][0], FAVOR, "layers.0"),
        (LEARNED["hedgehog"][0], {"num_attention_heads": 4}, "4 heads"),
        (LEARNED["hedgehog"][0], {"position_embedding_type": "alibi"}, "ALiBi"),
    ],
)
def test_attention_that_does_not_fit(student, teacher, message):
    made = model(student)
    made.match = "outputs"
    other = model(teacher) if teacher and "kind" in teacher else model(**(teacher or {}))
    with pytest.raises(RunError, match=message):
        made.learn_from(other)
