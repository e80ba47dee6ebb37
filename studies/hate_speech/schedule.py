"""The learning rate of every optimiser step that a recipe gives, by the code that trains."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW

from lib.study.recipe import Recipe
from lib.training.optimisation import make_schedule


def learning_rates(settings: Mapping[str, Any], steps: int) -> list[float]:
    """Return the learning rate of every optimiser step by the recipe, without the factors of parts.

    Args:
        settings: the section `recipe` of the run.
        steps: optimiser steps of the whole training.

    Raises:
        pydantic.ValidationError: `settings` are not a complete recipe.
    """
    recipe = Recipe.model_validate(settings)
    optimizer = AdamW([nn.Parameter(torch.zeros(1))], lr=recipe.learning_rate)
    schedule = make_schedule(optimizer, recipe, steps)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates
