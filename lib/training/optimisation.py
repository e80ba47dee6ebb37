"""The optimiser of a recipe, the schedule of its learning rate, and initially frozen weights."""

import importlib
import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR
from transformers import PreTrainedModel, get_cosine_with_min_lr_schedule_with_warmup
from transformers.trainer_pt_utils import get_parameter_names

from lib.core.errors import RunError, require
from lib.study.recipe import Recipe

logger = logging.getLogger(__name__)

UNDECAYED = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)", r"(?:^|\.)a_log$"]
"""Patterns in the lower-case names of weights that do not decay: biases, norms, and the rates of a state space,
as in the published code of Mamba and Hydra."""
ONE_CYCLE_RISE = 25.0
"""Peak of a one-cycle learning rate divided by its first value; torch's default."""


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable weights of `model`, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def count_moved(model: PreTrainedModel, weights: Mapping[str, nn.Parameter], recipe: Recipe, epochs: float) -> int:
    """Return the number of weights that a training moved: all trainable ones but for frozen ones, and rates of 0.

    Args:
        model: model of the run.
        weights: its trainable weights as its optimiser gets them, before `freeze`.
        recipe: recipe of the run.
        epochs: passes over the training documents that were done, the last one perhaps partial.
    """
    thaws = epochs > recipe.frozen_epochs
    frozen = {} if thaws else {weight: None for part in _frozen(model, recipe) for weight in part.parameters()}
    factors = multipliers(recipe)
    moved = (each for name, each in weights.items() if factors[_part(model, name)] and each not in frozen)
    return sum(each.numel() for each in moved)


def multipliers(recipe: Recipe) -> dict[str, float]:
    """Return the factor on the learning rate of each part of a model."""
    return {"backbone": recipe.backbone_lr_multiplier, "head": recipe.head_lr_multiplier}


def make_optimizer(model: PreTrainedModel, recipe: Recipe) -> Optimizer:
    """Return AdamW over all trainable weights, with the weight decay and learning rate of each.

    Raises:
        RunError: a part with its own learning rate has no trainable weights, or a package is missing.
    """
    groups = _groups(model, recipe.weight_decay)
    factors = multipliers(recipe)
    for part, multiplier in factors.items():
        if multiplier != 1 and part not in {found for found, _ in groups}:
            raise RunError(f"recipe.{part}_lr_multiplier: {multiplier:g}, but the {part} has no trainable weights.")
    weights = trained(model)
    rates = {part: recipe.learning_rate * factor for part, factor in factors.items()}
    parts: list[dict[str, Any]] = [
        {"params": [weights[name] for name in names], "weight_decay": decay, "lr": rates[part], "part": part}
        for (part, decay), names in groups.items()
    ]
    options: dict[str, Any] = {"lr": recipe.learning_rate, "betas": (0.9, 0.999), "eps": 1e-8}
    if recipe.optimizer == "adamw":
        return AdamW(parts, fused=True, **options)
    require("bitsandbytes", f"recipe.optimizer: {recipe.optimizer}")
    optim = importlib.import_module("bitsandbytes").optim
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            optim.GlobalOptimManager.get_instance().register_module_override(module, "weight", {"optim_bits": 32})
    return optim.AdamW(parts, optim_bits=8, **options)


def _groups(model: PreTrainedModel, weight_decay: float) -> dict[tuple[str, float], list[str]]:
    """Return the names of the trainable weights of each part and weight decay."""
    decayed = set(get_parameter_names(model, [nn.LayerNorm], UNDECAYED))
    groups: dict[tuple[str, float], list[str]] = {}
    for name in trained(model):
        groups.setdefault((_part(model, name), weight_decay if name in decayed else 0.0), []).append(name)
    return groups


def load_moments(optimizer: Optimizer, model: PreTrainedModel, recipe: Recipe, saved: Mapping[str, Any]) -> None:
    """Load the moments and step counts of a stored optimiser; learning rate and weight decay stay those of the recipe.

    Args:
        optimizer: of `make_optimizer`.
        model: model of the run.
        recipe: recipe of the run.
        saved: `state_dict` of the stored optimiser, perhaps of another recipe.
    """
    # It holds no names: its weights are in the order of its groups, which depend on its weight decay.
    decay = max(group["weight_decay"] for group in saved["param_groups"])
    before = [name for names in _groups(model, decay).values() for name in names]
    moments = {name: saved["state"][place] for place, name in enumerate(before) if place in saved["state"]}
    now = [name for names in _groups(model, recipe.weight_decay).values() for name in names]
    state = {place: moments[name] for place, name in enumerate(now) if name in moments}
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def warmup_steps(recipe: Recipe, steps: int) -> int:
    """Return the number of warm-up steps of a training run."""
    return math.ceil(Fraction(str(recipe.warmup_ratio)) * steps)  # floats make 8 steps of 0.07 x 100


def make_schedule(optimizer: Optimizer, recipe: Recipe, steps: int) -> LRScheduler:
    """Return the schedule of the learning rate.

    Args:
        optimizer: optimiser with the peak rate of each group.
        recipe: recipe of the run.
        steps: optimiser steps of the whole training.

    Source:
        Smith and Topin 2018, "Super-Convergence", for `one_cycle`; torch's own, with its defaults.
    """
    if recipe.schedule == "cosine":
        warmup = warmup_steps(recipe, steps)
        return get_cosine_with_min_lr_schedule_with_warmup(optimizer, warmup, steps, min_lr_rate=recipe.min_lr_ratio)
    lowest = recipe.min_lr_ratio * ONE_CYCLE_RISE  # as a share of the initial rate
    # torch divides by the lengths of rise and fall, which are rising - 1 and total - rising.
    rising = recipe.warmup_ratio * steps
    total = steps + 1 if math.isclose(rising, steps) else steps  # a rise over all steps falls after the last one
    rising = 1.5 if math.isclose(rising, 1) else rising
    peaks = [group["lr"] for group in optimizer.param_groups]
    fall = 1 / lowest if lowest else math.inf
    rise = rising / total
    return OneCycleLR(optimizer, peaks, total, pct_start=rise, div_factor=ONE_CYCLE_RISE, final_div_factor=fall)


def advance(schedule: LRScheduler, steps: int) -> None:
    """Set a new schedule to the rate after `steps`, which follows from their number alone."""
    schedule.last_epoch = steps - 1
    with warnings.catch_warnings(action="ignore"):  # torch wants the optimiser to have done a step before
        schedule.step()


def class_weights(recipe: Recipe, labels: Sequence[Any], names: Sequence[str]) -> torch.Tensor:
    """Return the weight of each class in the loss [C], in float32; 1 for one without a training document if `balanced`.

    Where documents have several classes, `balanced` is the number of documents without a class over that with it.

    Args:
        recipe: recipe of the run, which weighs classes.
        labels: classes of the training documents [n], or of each those that it has.
        names: names of the classes, in the order of their numbers.
    """
    from sklearn.utils.class_weight import compute_class_weight  # starts slowly

    if isinstance(recipe.class_weights, dict):
        return torch.tensor([recipe.class_weights.get(name, 1.0) for name in names])
    if isinstance(labels[0], list):
        counts = torch.bincount(torch.tensor([each for found in labels for each in found]).long(), minlength=len(names))
        return torch.where(counts > 0, (len(labels) - counts) / counts.clamp(min=1), 1.0)
    weights, present = torch.ones(len(names)), torch.tensor(labels).unique().numpy()
    weights[present] = torch.tensor(compute_class_weight("balanced", classes=present, y=labels)).float()
    return weights


def freeze(model: PreTrainedModel, recipe: Recipe, epoch: int) -> None:
    """Freeze the lowest blocks, the embeddings, or both, in the first epochs.

    Call it after the optimiser is made, which contains only weights that are trainable then.

    Args:
        model: model of the run.
        recipe: frozen parts and number of epochs.
        epoch: epoch that begins, counted from 0.
    """
    if recipe.freezes and not recipe.frozen_epochs and epoch == 0:
        logger.warning("recipe: freezes nothing, since half of epochs = 1, rounded down, is 0. Set freeze_epochs")
    if not recipe.frozen_epochs:
        return
    for module in _frozen(model, recipe):
        module.requires_grad_(epoch >= recipe.frozen_epochs)


def _frozen(model: PreTrainedModel, recipe: Recipe) -> list[nn.Module]:
    """Return the parts of a model that are frozen at first."""
    if not recipe.freezes:
        return []
    encoder = model.base_model
    return [*encoder.layers[: recipe.freeze_layers], *([encoder.embeddings] if recipe.freezes_embeddings else [])]


def _part(model: PreTrainedModel, name: str) -> str:
    """Return the part of a model that a weight belongs to, one of those that have learning rates of their own."""
    return "backbone" if name.startswith(f"{model.base_model_prefix}.") else "head"
