"""Measure the geometry of attention while a model trains; changes no number of the training.

It counts in the digests of runs that measure, and of no others: see `OPTIONAL` in `lib.workflow.digests`.
"""

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import PreTrainedModel, TrainerCallback
from transformers.trainer_callback import ExportableState

from lib.backbones.parameters import BACKBONES
from lib.backbones.projections import AttentionLayer, Projections, gradient_norm
from lib.core.randomness import derive_seed
from lib.evaluation.attention_geometry import Form, Measures, largest_move, measure, upper_triangle_share
from lib.study.geometry import Geometry
from lib.study.run import RunSettings
from lib.training.scoring import load_split
from lib.training.trainer import KeyedTrainer

logger = logging.getLogger(__name__)

DRAWS = 32
"""Random layers, of the shapes of the model's layers in turns."""
WHOLE = "all"
"""In place of a head: the layer's sum of forms, or the mean of its maps."""
COLUMNS = (
    "step", "source", "weights", "position", "layer", "head", "symmetry", "directionality", "norm", "bound",
    "upper_triangle", "gradient_norm",
)  # fmt: skip
"""Of the table. `step`: optimiser steps done. `source`: `model`, or `random`, Gaussian projections of the same shapes,
once. `weights`: `merged`, `delta` or `adapter`, see `Projections.form`. `position`: tokens from query to key. `layer`
(of `random`, the draw) and `head` are counted from 0. `symmetry`, `directionality` and `norm`: see `Measures`. `bound`:
by how much at most an update of this norm moves symmetry. In the rows of the model's merged weights at the first of the
positions also `upper_triangle`, see `upper_triangle_share`, as a mean over the documents, and `gradient_norm`, that of
the layer's projections at the last step, as the optimiser gets it: clipped."""


class GeometryRecorder(TrainerCallback, ExportableState):
    """Keep rows of measurements, through interruptions; all arguments are as JSON keeps them, since checkpoints do.

    Args:
        settings: of `Geometry`.
        backbone: kind of the backbone.
        seed: of the run, for random projections.
        documents: token ids of the documents whose maps are measured.
    """

    def __init__(
        self, settings: Mapping[str, Any], backbone: str, seed: int, documents: Sequence[Sequence[int]]
    ) -> None:
        self.settings = Geometry.model_validate(settings)
        self.backbone, self.seed, self.documents = backbone, seed, documents
        self.rows: list[list[Any]] = []
        self._gradients: list[float] = []

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        arguments = {"settings": self.settings.model_dump(mode="json"), "backbone": self.backbone, "seed": self.seed}
        return {"args": arguments | {"documents": self.documents}, "attributes": {"rows": self.rows}}

    def on_train_begin(self, args, state, control, model, **kwargs):
        """Measure first weights."""
        if state.is_world_process_zero and not self.rows:
            self._measure(model, state.global_step, args)

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        """Measure the gradients of a step after which the weights are measured; the optimiser drops them."""
        if state.is_world_process_zero and self._is_due(state.global_step + 1, state.max_steps):
            self._gradients = [gradient_norm(layer) for layer in self._layers(model)]

    def on_step_end(self, args, state, control, model, **kwargs):
        """Measure the weights."""
        if state.is_world_process_zero and self._is_due(state.global_step, state.max_steps):
            self._measure(model, state.global_step, args)

    def _is_due(self, step: int, last: int) -> bool:
        return step % self.settings.every == 0 or step == last

    def _layers(self, model: PreTrainedModel) -> list[AttentionLayer]:
        return BACKBONES.load(self.backbone, "projections").attention_layers(model)

    @torch.no_grad()
    def _measure(self, model: PreTrainedModel, step: int, args: Any) -> None:
        """Add the rows of a step."""
        began, first = time.perf_counter(), not self.rows
        shares, layers = self._upper_triangles(model, args), self._layers(model)
        for number, layer in enumerate(layers):
            projections = Projections.read(layer)
            gradient = self._gradients[number] if self._gradients else math.nan
            whole = [shares[number].mean().item() if shares else math.nan, gradient]
            by_head = [[share, math.nan] for share in shares[number].tolist()] if shares else []
            for weights, position, head, measured in self._measured(projections):
                extra = [math.nan, math.nan]
                if weights == "merged" and position == self.settings.positions[0]:
                    extra = whole if head == WHOLE else by_head[int(head)] if by_head else extra
                self._add([step, "model", weights, position, number, head, *measured, *extra])
            for draw in range(number, DRAWS, len(layers)) if first else ():
                key = derive_seed("geometry", self.seed, draw)
                drawn = projections.drawn(torch.Generator().manual_seed(key))
                for weights, position, head, measured in self._measured(drawn):
                    self._add([step, "random", weights, position, draw, head, *measured, math.nan, math.nan])
        self._gradients = []
        logger.info("geometry of step %d: %.2f s", step, time.perf_counter() - began)

    def _add(self, row: list[Any]) -> None:
        self.rows.append([None if isinstance(value, float) and math.isnan(value) else value for value in row])

    def _measured(self, projections: Projections) -> Iterator[tuple[str, int, str, list[float]]]:
        """Yield weights, position, head, and the columns from `symmetry` to `bound`, of a layer and its heads."""
        for position in self.settings.positions:
            for whole in (True, False):
                merged: Measures | None = None
                for weights in projections.kinds:
                    form = Form(*projections.form(weights, position, whole=whole))
                    mirrored = Form(*projections.form(weights, -position, whole=whole)) if position else None
                    found = measure(form, mirrored)
                    merged = merged or found
                    bound = torch.full_like(found.norm, math.nan)
                    if weights == "delta":
                        bound = largest_move(merged.symmetry, found.norm / merged.norm)
                    for head, values in enumerate(torch.stack([*found, bound]).T.tolist()):
                        yield weights, position, WHOLE if whole else str(head), values

    def _upper_triangles(self, model: PreTrainedModel, args: Any) -> list[torch.Tensor]:
        """Return by layer the mean share of each head over the documents [H]; nothing without documents."""
        if not self.documents:
            return []
        trained, device = model.training, next(model.parameters()).device
        model.eval()
        totals: list[torch.Tensor] = []
        try:
            for ids in self.documents:
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.bf16):
                    maps = BACKBONES.load(self.backbone, "projections").attention_maps(
                        model, torch.tensor([ids], device=device)
                    )
                shares = [upper_triangle_share(each) for each in maps]
                totals = [total + share for total, share in zip(totals, shares, strict=True)] if totals else shares
        finally:
            model.train(trained)
        return [total / len(self.documents) for total in totals]


def geometry_recorder(run: RunSettings) -> GeometryRecorder:
    """Return what measures during a run whose settings ask for it."""
    settings = run.geometry
    assert settings is not None  # or nobody would ask
    texts: list[list[int]] = []
    if settings.documents:
        tokens = load_split(run.data["validation"])
        places = [place for place, length in enumerate(tokens["length"][:]) if length > 1][: settings.documents]
        texts = [ids[: settings.length] for ids in tokens.select(places)["input_ids"][:]]
    return GeometryRecorder(settings.model_dump(mode="json"), run.backbone.kind, run.seed, texts)


def write_geometry(trainer: KeyedTrainer, file: str | Path) -> None:
    """Write what was measured during a training as a table with `COLUMNS`."""
    # Another object after a resume, hence looked up.
    recorder = next(each for each in trainer.callback_handler.callbacks if isinstance(each, GeometryRecorder))
    pd.DataFrame(recorder.rows, columns=list(COLUMNS)).to_csv(file, index=False)
