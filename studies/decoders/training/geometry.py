"""Measure the geometry of attention during training; changes no number of the training.

It is part of the code digests of runs that measure only: see `OPTIONAL` in `lib.workflow.staleness.digests`.
"""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from lib.core.randomness import derive_seed
from lib.study.recipe import Geometry
from lib.study.run import RunSettings
from lib.training import distributed
from lib.training.predictor import Observer, load_split
from lib.training.trainer import Trainer
from studies.decoders.evaluation.attention_geometry import Form, Measures, largest_move, measure, upper_triangle_share
from studies.decoders.training.projections import Projections, attention_layers, attention_maps, gradient_norm

logger = logging.getLogger(__name__)

DRAWS = 32
"""Number of random layers; their shapes cycle through those of the model's layers."""
WHOLE = "all"
"""Value of `head` for a layer: the sum of its forms, or the mean of its maps."""
COLUMNS = (
    "step", "source", "weights", "position", "layer", "head", "symmetry", "directionality", "norm", "bound",
    "upper_triangle", "gradient_norm",
)  # fmt: skip
"""Columns of the table. `step`: optimiser steps done. `source`: `model`, or `random`, Gaussian projections of the same
shapes, once. `weights`: `merged`, `delta` or `adapter`, see `Projections.form`. `position`: tokens from query to key.
`layer` (of `random`, the draw) and `head` are counted from 0. `symmetry`, `directionality` and `norm`: see `Measures`.
`bound`: by how much at most an update of this norm moves symmetry. In the rows of the model's merged weights at the
first of the positions also `upper_triangle`, see `upper_triangle_share`, as a mean over the documents, and
`gradient_norm`, that of the layer's projections at the last step, as the optimiser gets it: clipped."""


class GeometryRecorder(Observer):
    """Records measurements as rows, which survive interruptions.

    Args:
        settings: the measurements.
        seed: seed of the run, for random projections.
        documents: token ids of the documents whose maps are measured.
    """

    def __init__(self, settings: Geometry, seed: int, documents: Sequence[Sequence[int]]) -> None:
        self.settings, self.seed, self.documents = settings, seed, documents
        self.rows: list[list[Any]] = []
        self._gradients: list[float] = []

    def state(self) -> list[list[Any]]:
        """Return the rows."""
        return self.rows

    def restore(self, state: list[list[Any]]) -> None:
        """Continue after the rows of a checkpoint."""
        self.rows = state

    def began(self, trainer: Trainer) -> None:
        """Measure the initial weights."""
        if not (distributed.index() or self.rows):
            self._measure(trainer)

    def has_gradients(self, trainer: Trainer) -> None:
        """Measure the gradients of a step whose weights are measured; the optimiser clears them."""
        if not distributed.index() and self._is_due(trainer.progress.step + 1, trainer.steps):
            self._gradients = [gradient_norm(layer) for layer in attention_layers(trainer.model)]

    def stepped(self, trainer: Trainer) -> None:
        """Measure the weights."""
        if not distributed.index() and self._is_due(trainer.progress.step, trainer.steps):
            self._measure(trainer)

    def _is_due(self, step: int, last: int) -> bool:
        return step % self.settings.every == 0 or step == last

    @torch.no_grad()
    def _measure(self, trainer: Trainer) -> None:
        """Add the rows of a step."""
        start, first, step = time.perf_counter(), not self.rows, trainer.progress.step
        shares, layers = self._upper_triangles(trainer), attention_layers(trainer.model)
        for number, layer in enumerate(layers):
            projections = Projections.read(layer)
            gradient = self._gradients[number] if self._gradients else math.nan
            share = shares.get(number)
            whole = [math.nan if share is None else share.mean().item(), gradient]
            by_head = [] if share is None else [[each, math.nan] for each in share.tolist()]
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
        logger.info("geometry of step %d: %.2f s", step, time.perf_counter() - start)

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

    def _upper_triangles(self, trainer: Trainer) -> dict[int, torch.Tensor]:
        """Return the mean share of each head over the documents [H] by layer; layers without a mechanism are missing.

        Without documents, all are missing.
        """
        if not self.documents:
            return {}
        model, device = trainer.model, trainer.device
        was_training, in_bf16 = model.training, trainer.run.precision == "bf16"
        model.eval()
        totals: dict[int, torch.Tensor] = {}
        try:
            for ids in self.documents:
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=in_bf16):
                    maps = attention_maps(model, torch.tensor([ids], device=device))
                for layer, each in enumerate(maps):
                    if each is not None:
                        share = upper_triangle_share(each)
                        totals[layer] = totals[layer] + share if layer in totals else share
        finally:
            model.train(was_training)
        return {layer: total / len(self.documents) for layer, total in totals.items()}


def geometry_recorder(run: RunSettings) -> GeometryRecorder:
    """Return the observer that measures during a run whose settings ask for it."""
    settings = run.geometry
    assert settings is not None  # the caller checks this
    texts: list[list[int]] = []
    if settings.documents:
        tokens = load_split(run.data["validation"])
        places = [place for place, length in enumerate(tokens["length"][:]) if length > 1][: settings.documents]
        texts = [ids[: settings.length] for ids in tokens.select(places)["input_ids"][:]]
    return GeometryRecorder(settings, run.seed, texts)


def write_geometry(recorder: GeometryRecorder, file: str | Path) -> None:
    """Write the measurements of a training run as a table with `COLUMNS`."""
    pd.DataFrame(recorder.rows, columns=list(COLUMNS)).to_csv(file, index=False)
