"""Attention that opens step by step while a model trains.

A token sees itself, all tokens before it and, at first, none after it; then ever more of the nearest ones. MAGNET
(Khosla et al., 2025) and the authors of llm2vec (BehnamGhader et al., 2024) ask whether that spares a decoder a shock.
"""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from lib.backbones.pretrained.model import PretrainedBackboneModel


class Opening(TrainerCallback):
    """Opens the attention of a model evenly over the first optimiser steps of a training.

    Args:
        model: with gradual attention.
        steps: until it is open.
    """

    def __init__(self, model: PretrainedBackboneModel, steps: int) -> None:
        self._model = model
        self._steps = steps

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Open further; a training that was interrupted goes on where it stood."""
        self._model.opened = min(1.0, state.global_step / self._steps)
