"""The head of imitation: its loss, and a teacher that is no part of the model."""

import pytest
import torch
from transformers import AutoModelForPreTraining

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.heads.loss import squared_error
from lib.core.errors import RunError

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
    optimiser = torch.optim.AdamW(student.train().parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        loss = student(**batch()).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
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
