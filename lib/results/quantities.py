"""The numbers of a run that tables and figures show, and how."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

MACRO, CHARACTERS, MICRO = "f1_macro", "f1", "f1_micro"
"""Metrics that are the F1 of a run: the mean over classes, over characters in spans, or over all decisions together."""
F1_NAMES = {MACRO: "F1", CHARACTERS: "F1 of characters", MICRO: "micro-F1"}
"""What tables call them."""
F1_IN_WORDS = {MACRO: "macro-F1", CHARACTERS: "F1 of the characters in spans", MICRO: "micro-F1"}
"""What sentences call them."""

TIMES = re.compile(r"\btime (\[(min|s|h)(/epoch)?\]$|against )")
"""The label of a measured time, or of a difference of two, contains it."""

OF_CLASS = "_class_"
"""Stands before the name of a class in a metric of one class."""


@dataclass(frozen=True)
class Quantity:
    """A number of every run, as the tables show it."""

    source: str
    """Column of the run records."""
    name: str
    """Column of the tables and of the published values."""
    label: str
    factor: float
    decimals: int
    printed: int
    """Decimals that the study printed."""
    score: bool = False
    """Whether it is a result, whose spread over seeds is of interest."""
    of_part: bool = False
    """Whether it is of a part, which models may lack."""

    def difference_label(self, words: str) -> str:
        """Return the label of a difference of two values, `words` after the name; of two percentages, in points."""
        name, bracket, unit = self.label.partition(" [")
        return f"{name} {words}{bracket}{unit}".replace("[%]", "[points]")

    def of(self, scores: Mapping[str, str]) -> Quantity:
        """Return it as the F1 of some datasets, if it shows the score.

        Args:
            scores: by dataset the metric that it is; of several metrics, the label names each with its datasets.
        """
        if not self.source.endswith("_score") or not scores:
            return self
        label = self.label.replace(F1_NAMES[MACRO], with_datasets(scores, F1_NAMES, ", "))
        (metric, *others) = dict.fromkeys(scores.values())
        name = self.name if others else self.name.replace(MACRO, {CHARACTERS: "f1_characters"}.get(metric, metric))
        return replace(self, name=name, label=label)

    @property
    def smaller_is_better(self) -> bool:
        """Whether it is a cost or a loss."""
        costs = ("loss", "perplexity", "unexplained_variance", "_mse", "_mae")
        return not self.score or (OF_CLASS not in self.source and self.source.endswith(costs))


def with_datasets(scores: Mapping[str, str], names: Mapping[str, str], between: str) -> str:
    """Return the names of the metrics that are the F1 of datasets; of several, each with its datasets."""
    of_metrics = {metric: [each for each in scores if scores[each] == metric] for metric in names}
    found = {names[metric]: f" ({', '.join(datasets)})" for metric, datasets in of_metrics.items() if datasets}
    return between.join(name + where * (len(found) > 1) for name, where in found.items())


OF_NUMBERS = frozenset({"pearson", "spearman", "mse", "mae"})
"""Metrics of predicted numbers; all other metrics of predictions are of classes, or of spans."""
STATE = "state_bytes"
"""Column of the state size of a model, which is in no record (`lib.results.scope.Scope.state_bytes`)."""

_MEASURED = {
    "memory": Quantity("peak_memory_mb", "peak_memory_gib", "memory [GiB]", 1 / 1024, 2, 2),
    "minutes": Quantity("seconds_per_epoch", "minutes_per_epoch", "time [min/epoch]", 1 / 60, 4, 2),
    "total_minutes": Quantity("training_seconds", "minutes", "time [min]", 1 / 60, 3, 2),
    "hours": Quantity("training_seconds", "hours", "time [h]", 1 / 3600, 2, 2),
    "lora_rank": Quantity("lora_rank", "lora_rank", "LoRA rank (0 = none)", 1, 0, 0),
    "loss": Quantity("train_loss", "loss", "loss", 1, 3, 3, score=True),
    "f1": Quantity("test_score", "f1_macro_percent", "F1 [%]", 100, 2, 2, score=True),
    "accuracy": Quantity("test_accuracy", "accuracy_percent", "accuracy [%]", 100, 2, 2, score=True),
    "matthews": Quantity("test_matthews", "matthews", "Matthews correlation", 1, 4, 4, score=True),
    "pearson": Quantity("test_pearson", "pearson", "Pearson correlation", 1, 4, 4, score=True),
    "spearman": Quantity("test_spearman", "spearman", "Spearman correlation", 1, 4, 4, score=True),
    "sequence_accuracy": Quantity(
        "test_sequence_accuracy", "sequence_accuracy_percent", "sequence accuracy [%]", 100, 2, 2, score=True
    ),
    "state_size": Quantity(STATE, "state_kib", "state size [KiB]", 1 / 1024, 2, 2),
    "parameters": Quantity("parameters_total", "parameters", "parameters", 1, 0, 0),
    "trained": Quantity("trained_parameters", "trained_parameters", "trained parameters", 1, 0, 0),
    "trained_share": Quantity("trained_share", "trained_percent", "trained [%]", 100, 2, 2),
    "approximated": Quantity("approximated", "approximated_percent", "documents approximated [%]", 100, 1, 1),
    "epochs": Quantity("epochs", "epochs", "epochs", 1, 1, 0),
}
_VALIDATED = {
    f"validation_{name}": replace(
        each,
        source=each.source.replace("test_", "eval_"),
        name=f"validation_{each.name}",
        label=f"validation {each.label}",
    )
    for name, each in _MEASURED.items()
    if name in ("f1", "accuracy", "sequence_accuracy", "matthews", "pearson", "spearman")
}
PARTS = ("embeddings", "attention", "feed_forward", "recurrence", "norms", "other", "backbone", "head", "trainable")
"""Parts of a model whose weights run records count; `backbone` is all but the head, `trainable` what adapters leave."""
_COUNTS = [f"parameters_{part}" for part in PARTS]
_COUNTED = {name: Quantity(name, name, name.replace("_", " "), 1, 0, 0, of_part=True) for name in _COUNTS}
QUANTITIES = _MEASURED | _VALIDATED | _COUNTED


def quantity(column: str) -> Quantity:
    """Return the quantity called `column`: one of `QUANTITIES`, or a metric of the run records as it is."""
    metric, of_class, name = column.partition(OF_CLASS)
    label = (metric + of_class).replace("_", " ") + name
    return QUANTITIES.get(column) or Quantity(column, column, label, 1, 4, 4, score=True)


def of_validation(metric: str) -> Quantity:
    """Return the quantity that a metric on validation is: `f1` is F1 of characters in percent."""
    if metric in F1_NAMES:
        return QUANTITIES["validation_f1"].of({"": metric})
    column = f"eval_{metric}"
    return next((each for each in QUANTITIES.values() if each.source == column), quantity(column))


def time_unit(minutes: float) -> tuple[str, int]:
    """Return the unit of times that are `minutes` at most, and how many of it a minute has: seconds below a minute."""
    return ("s", 60) if minutes < 1 else ("min", 1)


def in_readable_unit(shown: Quantity, runs: pd.DataFrame) -> Quantity:
    """Return a quantity as figures show it of these runs: minutes as seconds if all are below one."""
    if "[min" not in shown.label:
        return shown
    unit, factor = time_unit(shown.factor * runs[shown.source].max())
    return replace(shown, label=shown.label.replace("[min", f"[{unit}"), factor=shown.factor * factor)


def times_note(labels: Iterable[str]) -> str:
    """Return a sentence on how exact measured times are; empty if no label is of one."""
    said = "Times have two digits: trainings that run at the same time on one machine slow each other down."
    return said * any(map(TIMES.search, labels))


def shown_decimals(label: str, decimals: int, value: float) -> int:
    """Return the decimals that people read of a value: two digits of a measured time, or all before the point."""
    if not TIMES.search(label) or not value:
        return decimals
    return min(decimals, max(0, 1 - math.floor(math.log10(abs(value)))))
