"""What is frozen stands still until the thaw, and moves after it; all else moves from the beginning."""

import itertools

import pytest
import torch

from lib.core.record import read_record
from lib.study.run import RunSettings
from lib.training.optimisation import trained
from lib.training.predictor import Observer
from lib.training.run import train

EPOCHS = 4


@pytest.fixture
def weights_by_epoch(tmp_path):
    """Train a run and return all its weights at each epoch's beginning and at the end of the last one."""

    def weights(run):
        seen = []

        class Watch(Observer):
            def began(self, trainer):
                seen.append({name: weight.detach().clone() for name, weight in trainer.model.named_parameters()})

            def evaluated(self, trainer):
                self.began(trainer)

        train(run, tmp_path / "out", observers=[Watch()])
        return seen

    return weights


@pytest.mark.parametrize(
    ("kind", "stage", "recipe", "parts", "thaw"),
    [
        ("encoder", "finetune", {"freeze_layers": 1}, [".embeddings.", ".layers.0."], 2),
        ("encoder", "finetune", {"freeze_layers": 2, "freeze_embeddings": False}, [".layers."], 2),
        ("recurrent", "pretrain", {"freeze_embeddings": True, "freeze_epochs": 1}, [".embeddings."], 1),
        pytest.param(
            "recurrent",
            "pretrain",
            {"freeze_layers": 1, "freeze_epochs": EPOCHS},
            [".embeddings.", ".layers.0."],
            EPOCHS,
            marks=pytest.mark.extended,
        ),
    ],
)
def test_frozen_weights_until_the_thaw(kind, stage, recipe, parts, thaw, run_of, weights_by_epoch):
    backbone = {"kind": kind, "hidden_size": 32, "num_hidden_layers": 2}
    recipe |= {"epochs": EPOCHS, "keep": ["last"], "batch_size": 96}
    seen = weights_by_epoch(run_of(stage, backbone=backbone, recipe=recipe))
    assert len(seen) == EPOCHS + 1
    frozen = {name for name in seen[0] if any(part in name for part in parts)}
    assert all(any(part in name for name in frozen) for part in parts)
    assert frozen < set(seen[0])
    for epoch in range(EPOCHS):
        still = {name for name, weight in seen[epoch].items() if torch.equal(weight, seen[epoch + 1][name])}
        assert still == (frozen if epoch < thaw else set()), f"epoch {epoch + 1}"


class Trained(Observer):
    """Notes the names of the weights that each step trains."""

    def __init__(self):
        self.names = []

    def has_gradients(self, trainer):
        self.names.append(set(trained(trainer.model)))


@pytest.mark.extended
@pytest.mark.parametrize(("recipe", "thaw"), [({}, 1), ({"freeze_epochs": 3}, 3)])
def test_thaw_of_a_continued_run(recipe, thaw, run_of, tmp_path):
    """As docs/keep_training.md has it: more epochs would move the thaw, half of them by default, to a later one."""
    recipe = {"epochs": 2, "batch_size": 96, "freeze_layers": 1, "keep": ["last", "state"]} | recipe
    run, first, further = run_of("finetune", recipe=recipe), Trained(), Trained()
    train(run, tmp_path / "first", observers=[first])
    state = tmp_path / "first" / "model" / "state"
    recipe |= {"epochs": 6, "freeze_epochs": thaw}
    start = {"run": str(tmp_path / "first"), "checkpoint": str(state), "load_only_model_state": False}
    train(run_of("finetune", recipe=recipe, start=start), tmp_path / "out", observers=[further])
    seen = [*first.names, *further.names]
    assert len(seen) == 12
    assert all(before <= after for before, after in itertools.pairwise(seen))
    assert seen.index(seen[-1]) == 2 * thaw


PARTIAL = {
    "a thaw": ("finetune", {"freeze_layers": 1, "freeze_epochs": 1}),
    "an end before the thaw": ("finetune", {"freeze_layers": 2, "freeze_epochs": 1, "steps": 3}),
    "a head that stands still, on frozen blocks": (
        "finetune",
        {"head_lr_multiplier": 0, "freeze_layers": 1, "freeze_epochs": 2},
    ),
    "tied embeddings": ("pretrain", {"freeze_embeddings": True, "freeze_epochs": 2}),
    "words": ("tag", {"backbone_lr_multiplier": 0}),
    "weights": ("imitate", {"match": "weights"}),
}
"""Stage, and the settings of its recipe or its task."""


@pytest.mark.extended
@pytest.mark.parametrize("case", PARTIAL)
def test_recorded_number_of_weights_that_move(case, run_of, imitation, weights_by_epoch, tmp_path):
    stage, changes = PARTIAL[case]
    recipe = {"epochs": 2, "keep": ["last"]}
    if stage == "imitate":
        backbone = {"mechanism": {"kind": "hedgehog"}}
        run = RunSettings.model_validate(imitation(backbone=backbone, task=changes, recipe=recipe))
    else:
        run = run_of(stage, recipe=recipe | changes)
    seen = weights_by_epoch(run)
    moved = {name: weight.numel() for name, weight in seen[0].items() if not torch.equal(weight, seen[-1][name])}
    parameters = read_record(tmp_path / "out").parameters
    assert parameters["total"] == sum(weight.numel() for weight in seen[0].values())
    whole = len(moved) == len(seen[0])
    assert whole == (case == "a thaw")
    assert parameters.get("trainable") == (None if whole else sum(moved.values()) or pytest.fail("nothing moves"))
