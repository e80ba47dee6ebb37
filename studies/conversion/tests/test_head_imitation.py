"""The head of imitation: its loss, and a teacher that is no part of the model."""

import pytest
import torch
from transformers import AutoModelForPreTraining

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.heads.model import squared_error
from lib.core.errors import RunError
from studies.conversion.attention.hedgehog import reference as hedgehog
from studies.conversion.attention.lolcats import reference as lolcats
from studies.conversion.backbones.heads.imitation import cross_entropy_of_weights

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


def test_the_loss_is_the_mean_squared_error_at_real_tokens(student):
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


@pytest.mark.parametrize("padding", [1, 30])
@pytest.mark.parametrize("filler", [0, 7])
def test_neither_amount_nor_content_of_padding_moves_the_loss(student, padding, filler):
    plain, padded = student(**batch()).loss, student(**batch(padding, filler)).loss
    assert padded.item() == pytest.approx(plain.item(), rel=1e-5)


def test_padding_gets_no_gradient(student):
    states = {}
    layer = student.base_model.layers[-1]
    layer.register_forward_hook(lambda module, inputs, output: states.update(last=output) or output.retain_grad())
    values = batch(padding=2)
    student(**values).loss.backward()
    gradient = states["last"].grad.abs().sum(dim=-1)
    assert torch.equal(gradient > 0, values["attention_mask"].bool())


def test_given_places_of_labels_are_those_that_are_looked_for(student):
    values = batch()
    scored = (values["labels"].flatten() != -100).nonzero().squeeze(1)
    assert torch.equal(student(**values, scored=scored).loss, student(**values).loss)


def test_a_student_with_the_teachers_mechanism_and_weights_has_no_loss():
    for every_layer in (False, True):
        student = model(seed=3, every_layer=every_layer)
        student.learn_from(model(seed=3))
        assert student(**batch()).loss.item() < 1e-12
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert student(**batch()).loss.item() < 1e-12


def test_the_teacher_is_neither_a_part_nor_trained_nor_changed(student):
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


def test_mixed_precision_gives_about_the_same_loss(student):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = student(**batch()).loss
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(student(**batch()).loss.item(), rel=0.1)


def test_a_teacher_of_another_size_is_refused():
    with pytest.raises(RunError, match="its hidden_size is 32.*16"):
        model().learn_from(model(hidden_size=32))
    with pytest.raises(RunError, match="its num_hidden_layers is 1.*is 3..*task.layers: all"):
        model(every_layer=True).learn_from(model(num_hidden_layers=1))
    model().learn_from(model(num_hidden_layers=1))


def test_states_need_no_teacher_but_a_loss_does():
    assert model()(batch()["input_ids"]).last_hidden_state.shape == (4, 9, 16)
    with pytest.raises(ValueError, match="there is no teacher"):
        model()(**batch())


def test_parts_of_a_batch_add_up():
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


@pytest.mark.parametrize("match", ["outputs", "weights"])
@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("training", [False, True])
def test_the_loss_of_attention_is_that_of_dense_weights(name, match, training):
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


@pytest.mark.parametrize("match", ["outputs", "weights"])
@pytest.mark.parametrize(("padding", "filler"), [(3, 0), (30, 7)])
@pytest.mark.parametrize("name", ["hedgehog", "lolcats"])
def test_padding_does_not_move_the_loss_of_attention(match, padding, filler, name):
    student, _ = matching(match, name)
    plain, padded = student(**batch()).loss, student(**batch(padding, filler)).loss
    assert padded.item() == pytest.approx(plain.item(), rel=1e-5)


@pytest.mark.parametrize("match", ["outputs", "weights"])
def test_matched_attention_trains_mechanisms_alone(match):
    student, teacher = matching(match)
    before = {name: tensor.clone() for name, tensor in student.state_dict().items()}
    optimiser = torch.optim.AdamW([each for each in student.train().parameters() if each.requires_grad], lr=3e-2)
    assert_learns(student, optimiser, 8)
    moved = {name for name, tensor in student.state_dict().items() if not torch.equal(tensor, before[name])}
    assert moved == {name for name in before if ".mechanism." in name}
    assert not any(each.requires_grad or each.grad is not None for each in teacher.base_model.parameters())


@pytest.mark.parametrize("match", ["outputs", "weights"])
def test_mixed_precision_gives_about_the_same_loss_of_attention(match):
    student, _ = matching(match)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = student(**batch()).loss
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(student(**batch()).loss.item(), rel=0.1)


def test_weights_that_are_zero_leave_the_loss_finite():
    weights = torch.tensor([[[[1.0, 0.0]]]], requires_grad=True)
    loss = cross_entropy_of_weights(weights, torch.tensor([[[[0.5, 0.5]]]]))
    assert loss.shape == (1, 1)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert weights.grad.isfinite().all()


def test_the_cross_entropy_is_least_at_the_targets():
    targets = torch.rand(1, 2, 3, 3).softmax(-1)
    entropy = -(targets * targets.log()).sum(-1).mean(1)
    torch.testing.assert_close(cross_entropy_of_weights(targets, targets), entropy)
    assert (cross_entropy_of_weights(torch.full_like(targets, 1 / 3), targets) >= entropy).all()


@pytest.mark.parametrize(
    ("student", "teacher", "message"),
    [
        (FAVOR, None, "match: outputs trains the weights of attention mechanisms, but the model has none"),
        (LEARNED["hedgehog"][0], FAVOR, "layers.0.attention.mechanism has no exact attention"),
        (LEARNED["hedgehog"][0], {"num_hidden_layers": 2}, "layers.2.attention.mechanism has no exact attention"),
        (LEARNED["hedgehog"][0], {"num_attention_heads": 4}, "has 4 heads 4 wide, but .* 2 heads 8 wide"),
        (LEARNED["hedgehog"][0], {"position_embedding_type": "alibi"}, "no exact attention without ALiBi"),
    ],
)
def test_attention_that_does_not_fit_is_refused(student, teacher, message):
    made = model(student)
    made.match = "outputs"
    other = model(teacher) if teacher and "kind" in teacher else model(**(teacher or {}))
    with pytest.raises(RunError, match=message):
        made.learn_from(other)
