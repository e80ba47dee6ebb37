"""The geometry of attention, as runs measured it: before and after a training, by step, and with the scores."""

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import Field

from lib.core.errors import DataError
from lib.core.record import GEOMETRY
from lib.core.settings import WholeNumber, check
from lib.results.records import KEY, load_tables
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, ResultSettings, TableSettings, Topic
from lib.results.style import BASELINE_COLOUR, BEHIND, PANEL_INCHES, STYLE, legend_beside, line_styles, panel_grid
from lib.results.table import SMALL_P, Column, Table
from studies.decoders.evaluation.rank_correlation import rank_correlation

Measure = Literal["symmetry", "directionality", "upper_triangle", "gradient_norm"]
Weights = Literal["merged", "delta", "adapter"]
Per = Literal["layer", "head"]

OF_WEIGHTS = ("symmetry", "directionality")
"""Measures of weights and positions; the others are of the model as it computes."""
LABELS = {
    "symmetry": "symmetry",
    "directionality": "directionality",
    "upper_triangle": "attention to later tokens\n(share of squared weights)",
    "gradient_norm": "gradient norm",
}
WHOLE_LAYER = "all"
"""Value of `head` in rows of whole layers."""
CELL = ["dataset", "row", "step"]


class GeometrySettings(ResultSettings):
    """Settings that the table and the figure share."""

    about: ClassVar[Topic] = "training"
    needs_training: ClassVar[bool] = True
    needs_geometry: ClassVar[bool] = True

    stage: str | list[str]
    """Stage whose training is shown; it needs a section `geometry`. Of several, each model shows the one that it
    passes."""
    positions: list[WholeNumber] = Field([0], min_length=1)
    """Positions of keys from queries, as measured; the mean over several."""
    per: Per = "layer"
    """What means and deviations are over: whole layers, or all heads of all layers."""

    def stages_passed(self) -> list[str]:
        """See the base."""
        return [self.stage] if isinstance(self.stage, str) else []

    def stages_added(self) -> list[str]:
        """See the base."""
        return [] if isinstance(self.stage, str) else self.stage


def geometry_values(
    scope: Scope,
    stages: Sequence[str],
    measure: str,
    *,
    weights: Weights,
    positions: Sequence[int],
    per: Per = "layer",
    source: Literal["model", "random"] = "model",
) -> pd.Series:
    """Return a measure by `dataset`, `row`, `step`, `layer` and `head`, as a mean over seeds and positions.

    Each seed draws its own random projections, so their values are also by `seed`. What is not defined, such as the
    symmetry of an update that is still zero, is left out, and so are models without such weights.

    Args:
        scope: of the table or figure.
        stages: names of the stages.
        measure: column of the tables of geometry.
        weights: which weights; `merged` where the measure is none of weights.
        positions: tokens from query to key.
        per: whole layers, or each head.
        source: models, or random projections of the same shapes.

    Raises:
        DataError: runs are missing or duplicated, did not measure at these positions, or a model has runs of several
            of the stages on one dataset.
    """
    grid = pd.concat(scope.grid(stage) for stage in stages)
    passed = grid.groupby(["row", "dataset"])["stage"].unique()
    if several := [
        f"{row} passes {' and '.join(found)} on {dataset}" for (row, dataset), found in passed.items() if len(found) > 1
    ]:
        raise DataError(
            f"stage = {list(stages)}: {'; '.join(several)}. Expected one stage per model and dataset, since steps of "
            "two trainings are not those of one. Name one stage, or other models."
        )
    rows = grid[["row", *KEY]].merge(load_tables(scope.runs, GEOMETRY, {"head": str}), on=KEY)
    rows = rows[
        (rows["source"] == source) & (rows["weights"] == weights) & ((rows["head"] == WHOLE_LAYER) == (per == "layer"))
    ]
    if measure in (*OF_WEIGHTS, "bound"):
        if missing := sorted(set(positions) - set(rows["position"])) if len(rows) else []:
            known = ", ".join(map(str, sorted(rows["position"].unique())))
            raise DataError(
                f"positions: {', '.join(map(str, missing))} were not measured at {', '.join(stages)}. Known: {known}. "
                "Name some of these, or add them to `geometry.positions` of the stage."
            )
        rows = rows[rows["position"].isin(positions)]
    each = [*CELL, *(["seed"] if source == "random" else []), "layer", "head"]
    return rows.dropna(subset=[measure]).groupby(each)[measure].mean()


def over_layers(values: pd.Series) -> pd.DataFrame:
    """Return `mean` and `std` over layers, or heads, by `dataset`, `row` and `step`."""
    return values.groupby(CELL).agg(["mean", "std"])


def at_ends(values: pd.Series) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `mean` and `std` over layers by `dataset` and `row`, at the first step with values and at the last."""
    curves = over_layers(values).reset_index("step").groupby(CELL[:2])
    return curves.first()[["mean", "std"]], curves.last()[["mean", "std"]]


COLUMNS = {
    "symmetry_first": "symmetry first",
    "symmetry_last": "symmetry last",
    "symmetry_random": "symmetry random",
    "largest_move": "largest move possible",
    "directionality_first": "directionality first",
    "directionality_last": "directionality last",
    "directionality_random": "directionality random",
    "later_first": "later tokens first",
    "later_last": "later tokens last",
}
"""Labels of the columns; those without any value are left out."""


class GeometryTable(GeometrySettings, TableSettings):
    """A row per model, dataset and kind of weights: first and last symmetry and directionality."""

    kind: Literal["geometry"]
    weights: list[Weights] = Field(["merged", "delta"], min_length=1)
    """The model's weights (`merged`), their change by LoRA (`delta`), the product of LoRA's own matrices (`adapter`); a
    model without LoRA has only `merged`."""

    def make(self, scope: Scope) -> Table:
        """Return symmetry and directionality at the first and the last measurement, as means over layers and seeds.

        Standard deviations are over the layers. They are compared with random projections of the same shapes, by how
        much at most a model's update could have moved the symmetry of its merged weights, and in the rows of merged
        weights the share of squared attention weights on later tokens. An update is zero at first, so that its first
        value is that of the first measurement after it.

        Raises:
            DataError: a run is missing, duplicated or without its table of geometry, or nothing was measured of what is
                asked for.
        """
        parts = {weights: _columns(self, scope, weights) for weights in self.weights}
        values = pd.concat(parts, names=["weights"])
        datasets = dict.fromkeys(dataset for of_stage in scope.stages.values() for dataset in of_stage)
        places = itertools.product(scope.models, datasets, self.weights)
        rows = [place for place in places if (place[2], place[1], place[0]) in values.index]
        if not rows:
            raise DataError(
                f"no run of {', '.join(scope.stages)} has measured weights {', '.join(self.weights)}. Expected some: "
                "`delta` and `adapter` need LoRA on queries or keys. Change the table's settings."
            )
        values = values.loc[[place[::-1] for place in rows]].dropna(axis="columns", how="all")
        frame = pd.DataFrame(rows, columns=["model", "dataset", "weights"])
        if frame["dataset"].nunique() == 1:
            frame = frame.drop(columns="dataset")
        for name, part in values.columns:
            frame[name if part == "mean" else f"{name}_sd"] = values[name, part].to_numpy()
        columns = {name: Column(label, 3) for name, label in COLUMNS.items() if name in frame}
        return Table(frame, columns, deviations_over=f"{self.per}s")


def _columns(settings: GeometryTable, scope: Scope, weights: Weights) -> pd.DataFrame:
    """Return `mean` and `std` of every one of `COLUMNS` by `dataset` and `row`, NaN where a model has no value."""
    chosen: dict[str, Any] = {"positions": settings.positions, "per": settings.per}
    found: dict[str, pd.DataFrame] = {}
    for measure in OF_WEIGHTS:
        first, last = at_ends(geometry_values(scope, list(scope.stages), measure, weights=weights, **chosen))
        random = geometry_values(scope, list(scope.stages), measure, weights=weights, source="random", **chosen)
        found |= {f"{measure}_first": first, f"{measure}_last": last, f"{measure}_random": at_ends(random)[0]}
    if weights == "merged":
        bounds = geometry_values(scope, list(scope.stages), "bound", weights="delta", **chosen)
        found["largest_move"] = at_ends(bounds)[1][["mean"]]
        shares = at_ends(geometry_values(scope, list(scope.stages), "upper_triangle", weights="merged", **chosen))
        found |= dict(zip(("later_first", "later_last"), shares, strict=True))
    together = pd.concat(found, axis="columns")
    return together.reindex(columns=[(name, part) for name in COLUMNS for part in ("mean", "std")])


TOGETHER = "symmetry + directionality"
FEWEST = 4
"""Pairs that an interval of a correlation needs."""


class CorrelationTable(TableSettings):
    """Correlation of differences in F1 with differences in symmetry and directionality, over pairs of models."""

    about: ClassVar[Topic] = "differences"
    needs_training: ClassVar[bool] = True
    needs_geometry: ClassVar[bool] = True

    kind: Literal["correlation"]
    stage: str
    """Stage whose F1 on test and last measured geometry are compared."""
    base: dict[str, str] = Field(min_length=FEWEST)
    """Model that each model is compared with, such as the causal one of its family."""
    position: WholeNumber = 0
    """Position of keys from queries."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Confidence of the intervals."""

    def compared(self) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
        """See the base."""
        yield from ((f"base.{model}", [model], [other]) for model, other in self.base.items())

    def columns_shown(self, stage: str) -> list[str]:
        """See the base: F1."""
        return ["f1"]

    def make(self, scope: Scope) -> Table:
        """Return how differences in F1 correlate with those in symmetry, in directionality, and in their sum.

        Differences are of a model minus its base, of means over seeds, and of geometry over layers of the merged
        weights at the last measurement. Pearson's correlation has its interval by Fisher's transformation; Spearman's
        needs no straight line, and has its p-value by permutation.

        Raises:
            DataError: a run is missing or measured nothing, or a measure does not vary.

        Source:
            Hypothesis 3 of the study of decoders: the difference in F1 is proportional to (symmetry after - before) -
            (directionality before - after), which is the sum of both differences. Fisher (1915), Frequency Distribution
            of the Values of the Correlation Coefficient.
        """
        from scipy.stats import pearsonr

        pairs = list(dict.fromkeys((scope.row(model), scope.row(base)) for model, base in self.base.items()))
        f1 = scope.quantity("f1", self.stage)
        grid = scope.grid(self.stage, [f1.source])
        measured = {"f1": f1.factor * grid.astype({f1.source: float}).groupby(["dataset", "row"])[f1.source].mean()}
        for measure in OF_WEIGHTS:
            values = geometry_values(
                scope, [self.stage], measure, weights="merged", positions=[self.position], per="layer"
            )
            measured[measure] = at_ends(values)[1]["mean"]
        rows = []
        for dataset in scope.stages[self.stage]:
            of_models = pd.DataFrame({name: values[dataset] for name, values in measured.items()})
            differences = pd.DataFrame(
                [of_models.loc[model] - of_models.loc[base] for model, base in _distinct(pairs, scope, self, dataset)]
            )
            differences[TOGETHER] = differences[list(OF_WEIGHTS)].sum(axis=1, skipna=False)
            for name in (*OF_WEIGHTS, TOGETHER):
                found = differences[["f1", name]].dropna()
                if len(found) < FEWEST or found.nunique().min() == 1:
                    raise DataError(
                        f"{dataset}: {name} of {len(found)} pairs has no correlation with F1. Expected at least "
                        f"{FEWEST} pairs that differ. Name more in `base`, or leave the table out."
                    )
                pearson = pearsonr(found["f1"], found[name])
                spearman, spearman_p = rank_correlation(found["f1"], found[name])
                low, high = pearson.confidence_interval(self.confidence)
                rows.append(
                    {
                        "dataset": dataset,
                        "difference in": name,
                        "pairs": len(found),
                        "pearson": pearson.statistic,
                        "low": low,
                        "high": high,
                        "pearson_p": pearson.pvalue,
                        "spearman": spearman,
                        "spearman_p": spearman_p,
                    }
                )
        columns = {
            "pairs": Column("pairs", 0),
            "pearson": Column("Pearson r with F1", 2, signed=True),
            "low": Column(f"{100 * self.confidence:g} % interval from", 2, signed=True),
            "high": Column("to", 2, signed=True),
            "pearson_p": Column("p", 4),
            "spearman": Column("Spearman r", 2, signed=True),
            "spearman_p": Column("Spearman p", 4),
        }
        named = ", ".join(f"{model} - {base}" for model, base in pairs)
        note = (
            f"Differences of means over seeds: {named}. Pairs with the same base are no independent observations, so "
            f"intervals and p are too small rather than too large. {SMALL_P}"
        )
        return Table(pd.DataFrame(rows), columns, note)


def _distinct(
    pairs: Sequence[tuple[str, str]], scope: Scope, settings: CorrelationTable, dataset: str
) -> list[tuple[str, str]]:
    """Return the pairs of different runs on a dataset, each pair of runs once."""
    of_runs: dict[frozenset[str | None], tuple[str, str]] = {}
    for model, base in pairs:
        runs = frozenset(scope.owner(settings.stage, each, dataset) for each in (model, base))
        if None not in runs and len(runs) == 2:
            of_runs.setdefault(runs, (model, base))
    return list(of_runs.values())


RANDOM = "random matrices"
NOTE_CHARACTERS = 15
"""Characters of the note per inch."""
SHADE = 0.3
"""Opacity of all bands together, so that lines stay visible; a single band has at most half."""


class GeometryFigure(GeometrySettings, FigureSettings):
    """A measure of attention by optimiser step, one line per model, one panel per dataset."""

    kind: Literal["geometry"]
    measure: Measure
    """Drawn quantity: `symmetry` or `directionality` of the weights for queries and keys, `upper_triangle`, the share
    of squared attention weights on later tokens, or `gradient_norm` of these weights."""
    weights: Weights = "merged"
    """The model's weights (`merged`), their change by LoRA (`delta`), or the product of LoRA's own matrices
    (`adapter`)."""

    @check
    def _what_is_set_does_something(self) -> Iterator[str]:
        if self.measure == "gradient_norm" and self.per == "head":
            yield "per = 'head': gradients are measured by layer. Choose per: layer"

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw a measure against the optimiser steps, one panel per dataset.

        Lines are means over layers, or heads, of means over the seeds; bands span one standard deviation over the
        layers to either side. Grey lines are the mean of random projections of the same shapes, and one deviation to
        either side of it. Below the figure of merged symmetry stands how far at most the models' updates could have
        moved it.

        Raises:
            DataError: a run is missing, duplicated or without its table of geometry, or nothing was measured of what is
                asked for.
        """
        chosen: dict[str, Any] = {name: getattr(self, name) for name in ("weights", "positions", "per")}
        curves = over_layers(geometry_values(scope, list(scope.stages), self.measure, **chosen))
        if curves.empty:
            raise DataError(
                f"no run of {', '.join(scope.stages)} has {self.measure} of weights '{self.weights}' per "
                f"{self.per}. Expected some: `delta` and `adapter` need LoRA on queries or keys, `upper_triangle` "
                "needs documents (`geometry` of the stage). Change the figure's settings."
            )
        random = pd.Series(dtype=float)
        if self.measure in OF_WEIGHTS:
            random = geometry_values(scope, list(scope.stages), self.measure, source="random", **chosen)
        drawn = curves.index.unique("row")
        styles = line_styles({row: scope.families[row] for row in scope.models if row in drawn})
        named = dict.fromkeys(dataset for of_stage in scope.stages.values() for dataset in of_stage)
        datasets = [dataset for dataset in named if dataset in curves.index.unique("dataset")]
        figure, panels = panel_grid(len(datasets), PANEL_INCHES)
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(scope.title(dataset))
            if dataset in random.index.unique(0):
                _draw_random(axes, random.loc[dataset])
            for row, style in styles.items():
                if (dataset, row) in curves.index.droplevel("step"):
                    _draw_curve(axes, curves.loc[(dataset, row)], style, min(SHADE / 2, SHADE / len(styles)))
            axes.set_xlabel("optimiser step")
            axes.set_ylabel(_label(self))
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if note := _note(self, scope):
            wrapped = textwrap.fill(note, int(NOTE_CHARACTERS * figure.get_figwidth()), break_on_hyphens=False)
            figure.supxlabel(wrapped, x=0.01, ha="left", fontsize=7, color=BASELINE_COLOUR)
        handles = {line.get_label(): line for axes in panels for line in axes.lines}
        names = [*styles, *([RANDOM] if RANDOM in handles else [])]
        legend_beside(figure, [handles[name] for name in names], names)
        return figure


def _label(settings: GeometryFigure) -> str:
    label = LABELS[settings.measure]
    if settings.measure not in OF_WEIGHTS:
        return label
    of = {"merged": "of merged weights", "delta": "of LoRA's change", "adapter": "of LoRA's own matrices"}
    where = (
        "" if settings.positions == [0] else f",\nkeys at {', '.join(f'{place:+d}' for place in settings.positions)}"
    )
    return f"{label} {of[settings.weights]}{where}"


def _draw_curve(axes: Axes, curve: pd.DataFrame, style: dict[str, Any], shade: float) -> None:
    axes.plot(curve.index, curve["mean"], **style)
    low, high = curve["mean"] - curve["std"], curve["mean"] + curve["std"]
    axes.fill_between(curve.index, low, high, color=style["color"], alpha=shade, linewidth=0)


def _draw_random(axes: Axes, values: pd.Series) -> None:
    axes.axhline(values.mean(), linestyle="--", linewidth=1, label=RANDOM, gid=RANDOM, **BEHIND)
    if len(values) > 1:
        for edge in (values.mean() - values.std(), values.mean() + values.std()):
            axes.axhline(edge, linestyle=":", linewidth=0.8, **BEHIND)


def _note(settings: GeometryFigure, scope: Scope) -> str | None:
    """Return by how much at most the updates could have moved merged symmetry, if that is drawn and there are some."""
    if (settings.measure, settings.weights) != ("symmetry", "merged"):
        return None
    bounds = geometry_values(
        scope, list(scope.stages), "bound", weights="delta", positions=settings.positions, per=settings.per
    )
    if bounds.empty:
        return None
    greatest = at_ends(bounds)[1]["mean"].groupby("row").max()
    moves = ", ".join(f"{row} {greatest[row]:.2g}" for row in scope.models if row in greatest)
    return f"An update as large as the one learnt could move symmetry by at most: {moves}."
