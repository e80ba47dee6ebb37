"""What every table of a study must show, computed from the numbers of its runs alone: one function per kind."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from expected_runs import Made, Words, short, spelled
from expected_statistics import difference_interval, mcnemar
from scipy.special import stdtrit
from scipy.stats import beta, linregress, pearsonr, spearmanr
from sklearn.metrics import precision_recall_fscore_support
from statsmodels.stats.multitest import multipletests

from lib.core.errors import DataError
from lib.evaluation.calibration import expected_calibration_error, reliability
from lib.evaluation.decisions import least_confidence
from lib.evaluation.decisions import threshold as threshold_of
from lib.evaluation.statistics import Estimate, PairedPredictions, smallest_difference
from studies.hate_speech.evaluation.detection import detection_scores

Cell = str | float | int | None
EXTRA = {
    "requirements": ("reference", "baseline"),
    "significance": ("reference", "baseline"),
    "answer": ("reference", "baseline"),
    "pareto": ("baseline",),
    "bars": ("baseline",),
    "score_time": ("baseline",),
    "score_intervals": ("baseline",),
    "calibration": ("baseline",),
}
"""Kinds that compare rows with the reference or the baseline of the report."""
ALWAYS_DIVIDED = {"classes"}
DIVIDED = {"detection", "history", "groups", "errors", "confusion", "trials_figure"}
"""Kinds of which there is one result per dataset, where there are several."""
VALUES: dict[str, tuple[str, Callable[[Made], float | None], bool]] = {
    "memory": ("peak_memory_gib", lambda run: run.memory / 1024, False),
    "minutes": ("minutes_per_epoch", lambda run: run.seconds / run.epochs / 60 if run.trains else None, False),
    "total_minutes": ("minutes", lambda run: run.seconds / 60 if run.trains else None, False),
    "hours": ("hours", lambda run: run.seconds / 3600 if run.trains else None, False),
    "parameters": ("parameters", lambda run: run.parameters["total"], False),
    "trained": ("trained_parameters", lambda run: run.parameters["total"] if run.trains else None, False),
    "epochs": ("epochs", lambda run: run.epochs, False),
    "loss": ("loss", lambda run: run.metrics.get("train_loss"), True),
    "f1": ("f1_macro_percent", lambda run: 100 * run.metrics[f"test_{run.score}"], True),
    "accuracy": ("accuracy_percent", lambda run: 100 * run.metrics["test_accuracy"], True),
    "matthews": ("matthews", lambda run: run.metrics["test_matthews"], True),
    "validation_f1": ("validation_f1_macro_percent", lambda run: 100 * run.metrics[f"eval_{run.score}"], True),
    "validation_accuracy": ("validation_accuracy_percent", lambda run: 100 * run.metrics["eval_accuracy"], True),
    "eval_loss": ("eval_loss", lambda run: run.metrics.get("eval_loss"), True),
}
"""By the name of a column in settings: what the CSV calls it, its value, and whether it is a score."""


@dataclass
class Expected:
    """A table."""

    columns: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Parts of its note."""


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of those that are there; None of none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def deviation(values: Iterable[float | None]) -> float | None:
    """Return the standard deviation of those that are there; None of fewer than two."""
    known = [value for value in values if value is not None]
    return float(np.std(known, ddof=1)) if len(known) > 1 else None


class View:
    """What one table or figure is about."""

    def __init__(self, words: Words, settings: Mapping[str, Any], dataset: str | None = None):
        report = words.study["report"]
        self.words, self.settings, self.dataset = words, settings, dataset
        kind = settings.get("kind", "stage")
        self.passed, self.added = stages_passed(settings), list(settings.get("time", []))
        if kind == "geometry" and isinstance(settings["stage"], list):
            self.passed, self.added = [], settings["stage"]
        self.stages = {
            stage: [dataset] if dataset else shown_entries(words, settings, stage)
            for stage in dict.fromkeys([*self.added, *self.passed])
        }
        owners = {
            model: {
                (stage, entry): words.owner(model, stage, entry)
                for stage, entries in self.stages.items()
                for entry in entries
                if words.has_run(model, stage, entry)
            }
            for model in words.models
        }
        self.row_of: dict[str, str] = {}
        """By model the row that shows it: the first model with the same runs."""
        for model, own in owners.items():
            if own and set(self.passed) <= {stage for stage, _ in own}:
                same = [row for row in self.row_of.values() if owners[row] == own]
                self.row_of[model] = same[0] if same else model
        named = settings.get("models") or _named_elsewhere(settings) or list(self.row_of)
        self.named = [model for model in named if model in self.row_of]
        self.rows = list(dict.fromkeys(self.row_of[model] for model in self.named))
        self.beside = {name: report.get(name) for name in compared_with(settings)}
        """The report's reference and baseline, as far as its kind compares rows with them."""
        self.reference = self.row_of.get(self.beside.get("reference") or "")
        self.baseline = self.row_of.get(self.beside.get("baseline") or "")
        self.trained = [row for row in self.rows if row != self.baseline]

    @property
    def stage(self) -> str:
        """The only stage."""
        return str(self.settings["stage"])

    def runs(self, row: str, stage: str, entry: str, variant: Mapping[str, Any] | None = None) -> list[Made]:
        """Return the runs of a row, one per seed; none where it is not made for them."""
        if not self.words.has_run(row, stage, entry):
            return []
        return [self.words.made(row, stage, entry, seed, variant) for seed in self.words.seeds(stage, entry)]

    def made(self) -> list[tuple[str, str]]:
        """Return each entry of the only stage with each row that has runs on it."""
        stage = self.stage
        return [(at, row) for at in self.stages[stage] for row in self.rows if self.words.has_run(row, stage, at)]

    def same(self, row: str, other: str, stage: str, entry: str) -> bool:
        """Whether two rows have the same run."""
        return self.words.owner(row, stage, entry) == self.words.owner(other, stage, entry)

    def family(self, row: str) -> str:
        """Return the family of a row: that of its first run."""
        stages = [*self.passed, *self.stages]
        places = [
            (stage, entry) for stage in stages for entry in self.stages[stage] if self.words.has_run(row, stage, entry)
        ]
        return self.words.family(row, *places[0])

    def several_seeds(self, rows: Sequence[str], stages: Sequence[str]) -> bool:
        """Whether any of these rows has several runs on a dataset."""
        return any(
            len(self.runs(row, stage, entry)) > 1 for row in rows for stage in stages for entry in self.stages[stage]
        )

    def costs(self, row: str, priced: str, entry: str, stages: Sequence[str]) -> list[list[Made]]:
        """Return, for each seed of a row's runs of a stage, these and the runs of other stages that they come from."""
        words, found = self.words, []
        way = words.way(row, priced, entry)
        for seed in words.seeds(priced, entry):
            seeds = {(priced, entry): seed}
            for earlier, later in zip(way[-2::-1], way[:0:-1], strict=True):
                seeds[earlier] = words.seed_before(earlier, seeds[later])
            runs = []
            for stage in stages:
                places = [place for place in seeds if place[0] == stage]
                if not places and self.shows(row, stage, entry):
                    places = [(stage, entry)]
                    seeds[stage, entry] = words.seed_before((stage, entry), seed)
                runs += [words.made(row, *place, seeds[place]) for place in places]
            found.append(runs)
        return found

    def counts(self, row: str, priced: str, entry: str, stage: str) -> bool:
        """Whether a stage is among those that make the costs of a row's runs."""
        return stage in dict(self.words.way(row, priced, entry)) or self.shows(row, stage, entry)

    def shows(self, row: str, stage: str, entry: str) -> bool:
        """Whether a row has a run of a stage on an entry that the table shows of the stage."""
        return entry in self.stages[stage] and self.words.has_run(row, stage, entry)

    @cached_property
    def paired(self) -> dict[str, PairedPredictions]:
        """Predictions of all models on each dataset of the stage, every run once, by the name of the run's model."""
        found = {}
        for entry in self.stages[self.stage]:
            models = list(
                dict.fromkeys(self.words.owner(m, self.stage, entry) for m in self.words.passing(self.stage, entry))
            )
            found[entry] = self._paired(models, entry)
        return found

    def _paired(self, models: Sequence[str], entry: str) -> PairedPredictions:
        seeds = sorted(self.words.seeds(self.stage, entry))
        tests = [
            [_test(self.words.made(model, self.stage, entry, seed)).sort_values("id") for model in models]
            for seed in seeds
        ]
        classes, labels = len(self.words.datasets[entry]["labels"]), tests[0][0]["label"].to_numpy()
        given = np.array([[each["prediction"].to_numpy() for each in of_seed] for of_seed in tests])
        if self.words.sets(entry):
            metric = self.words.score(self.stage, entry)
            return PairedPredictions.of_sets(models, labels, given, classes, metric)
        return PairedPredictions(models, labels, given, np.arange(len(labels)), classes)

    def has(self, row: str, entry: str, column: str = "prediction") -> np.ndarray:
        """Return whether runs of a row gave test documents each class [seeds, documents, classes]; or they have it."""
        numbers = range(len(self.words.datasets[entry]["labels"]))
        tests = [_test(run).sort_values("id") for run in self.runs(row, self.stage, entry)]
        return np.array([[np.isin(numbers, each) for each in test[column]] for test in tests])

    def called(self, column: str, stage: str, *entries: str) -> str:
        """Return what the CSV calls a column of these entries: F1 by its metric, if they have the same."""
        there = [at for at in entries if any(self.runs(row, stage, at) for row in self.words.models)]
        metrics = {self.words.score(stage, at) for at in there}
        return VALUES[column][0].replace("f1_macro", metrics.pop() if len(metrics) == 1 else "f1_macro")

    def number(self, row: str, entry: str) -> int:
        """Return the place of a row's run in `paired`."""
        return list(self.paired[entry].models).index(self.words.owner(row, self.stage, entry))


def _test(run: Made) -> pd.DataFrame:
    assert run.predictions is not None
    return run.predictions[run.predictions["split"] == "test"]


def compared_with(settings: Mapping[str, Any]) -> Sequence[str]:
    """Return what a result compares rows with: the report's reference, its baseline, or both."""
    kind = settings.get("kind", "stage")
    return settings.get("against", ()) if kind == "stage" else EXTRA.get(kind, ())


def stages_passed(settings: Mapping[str, Any]) -> list[str]:
    """Return the stages that every row has runs of."""
    stages: list[str] = []
    for each in [settings["stage"]] if isinstance(settings.get("stage"), str) else settings.get("stage", []):
        stages += each if isinstance(each, list) else [each]
    return list(dict.fromkeys(stages))


def shown_entries(words: Words, settings: Mapping[str, Any], stage: str) -> list[str]:
    """Return the entries of a stage that a table shows: those that it names, or all."""
    return [entry for entry in settings.get("datasets") or () if entry in words.entries(stage)] or words.entries(stage)


def _named_elsewhere(settings: Mapping[str, Any]) -> list[str]:
    """Return the models that pairs or curves name."""
    pairs, curves = settings.get("pairs", []), settings.get("curves", {})
    return list(
        dict.fromkeys([model for pair in pairs for model in pair] + [m for each in curves.values() for m in each])
    )


def results(words: Words, section: str) -> list[tuple[str, str, View]]:
    """Return the name of every table, or figure, the entry of the report that asks for it, and what it is about."""
    found = []
    for entry, settings in words.study["report"].get(section, {}).items():
        kind = settings.get("kind", "stage")
        kind = "trials_figure" if (kind, section) == ("trials", "figures") else kind
        if kind not in ALWAYS_DIVIDED | DIVIDED:
            found.append((entry, entry, View(words, settings)))
            continue
        views = [View(words, settings, dataset) for dataset in shown_entries(words, settings, settings["stage"])]
        views = [view for view in views if view.rows]
        alone = kind in DIVIDED and len(views) == 1
        found += [(entry if alone else f"{entry}_{view.dataset}", entry, view) for view in views]
    return found


def expected_table(view: View) -> Expected:
    """Return what a table must show."""
    return TABLES[view.settings.get("kind", "stage")](view)


# Scores and costs of runs


def _stage(view: View) -> Expected:
    given = view.settings["stage"]
    groups = [
        group if isinstance(group, list) else [group] for group in (given if isinstance(given, list) else [given])
    ]
    columns = view.settings["columns"]
    of_stage = {stage: columns[stage] if isinstance(columns, dict) else columns for stage in view.passed}
    one = len({column for each in of_stage.values() for column in each}) == 1
    others = list(dict.fromkeys(row for row in (view.reference, view.baseline) if row))
    several = any(
        len(view.runs(row, stage, at)) > 1
        for row in [*view.rows, *others] for stage in view.passed for at in view.stages[stage]
    )  # fmt: skip
    table = Expected(["model"], [[row] for row in view.rows])
    alone = all(len(view.stages[group[-1]]) == 1 for group in groups)
    for group in groups:
        stage, together = group[-1], "+".join(group)
        for entry in view.stages[stage]:
            place = entry if len(groups) == 1 else together if alone else f"{together}_{entry}"
            for column in of_stage[stage]:
                label = place if one else f"{place}_{view.called(column, stage, entry)}"
                for name, cells in _numbers(view, column, group, entry, others).items():
                    _add_means(table, label + name, cells, VALUES[column][2] and several)
    if any("memory" in each for each in of_stage.values()):
        kinds = [
            {run.memory_kind for stage in view.passed for at in view.stages[stage] for run in view.runs(row, stage, at)}
            for row in view.rows
        ]
        _add(table, "memory_kind", [", ".join(sorted(each)) for each in kinds])
    return table


def _numbers(
    view: View, column: str, group: Sequence[str], entry: str, others: Sequence[str]
) -> dict[str, list[list[float | None]]]:
    """Return the values of each row on an entry, and how they differ from others, by the end of the column's name."""
    (_, value, is_score), stage = VALUES[column], group[-1]
    own: dict[str, list[float | None]] = {}
    for row in [*view.rows, *others]:
        own[row] = [value(run) for run in view.runs(row, stage, entry)]
        if len(group) > 1 and own[row]:
            cost = _cost(view, column, row, stage, entry, group)
            own[row] = [cost and cost / {"memory": 1024, "total_minutes": 60}.get(column, 1)]
    found = {"": [own[row] for row in view.rows]}
    for other in [other for other in others if own[other]]:
        cells: list[list[float | None]] = []
        for row in view.rows:
            if not own[row] or view.same(row, other, stage, entry):
                cells.append([])
            elif is_score:
                cells.append([_less(ours, theirs) for ours, theirs in zip(own[row], own[other], strict=True)])
            else:
                cells.append([_per_cent(view, column, row, stage, entry, group, other)])
        found[f"_against_{other}"] = cells
    return found


def _add(table: Expected, name: str, cells: Iterable[Cell]) -> None:
    table.columns.append(name)
    for row, cell in zip(table.rows, cells, strict=True):
        row.append(cell)


def _add_means(table: Expected, name: str, cells: Iterable[Sequence[float | None]], several: bool) -> None:
    """Add a column of means over seeds, and one of their deviations where a row has several seeds."""
    cells = list(cells)
    _add(table, name, map(mean, cells))
    if several:
        _add(table, f"{name}_sd", map(deviation, cells))


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


COST: dict[str, tuple[Callable[[Made], float | None], Callable[[Sequence[float]], float], Sequence[str]]] = {
    "memory": (lambda run: run.memory, max, ["memory_kind"]),
    "total_minutes": (lambda run: run.seconds if run.trains else None, sum, ["hardware", "processes"]),
    "parameters": (lambda run: run.parameters["total"], max, []),
}
"""Of a cost: its value, how several become one, and what must be equal to compare two."""


def _cost(view: View, column: str, row: str, priced: str, entry: str, stages: Sequence[str]) -> float | None:
    """Return what the runs of a row cost, the mean over seeds."""
    value, together, _ = COST[column]
    totals = []
    for runs in view.costs(row, priced, entry, stages):
        known = [cost for run in runs if (cost := value(run)) is not None]
        totals.append(together(known) if known else None)
    return mean(totals)


def _per_cent(
    view: View, column: str, row: str, priced: str, entry: str, stages: Sequence[str], other: str | None = None
) -> float | None:
    """Return by how many per cent a row costs more than another one, the reference unless it is named."""
    like, places = COST[column][2], (row, other or view.reference)
    if not all(view.words.has_run(str(each), priced, entry) for each in places):
        return None
    costs = [_cost(view, column, str(each), priced, entry, stages) for each in places]
    ways = [_ways(view.costs(str(each), priced, entry, stages), like) for each in places]
    if None in costs or ways[0] != ways[1]:
        return None
    return 100 * (costs[0] / costs[1] - 1)  # type: ignore[operator]


def _ways(of_seeds: Iterable[Iterable[Made]], like: Sequence[str]) -> object:
    """Return what must be equal to compare costs: one way for all runs, or that of each seed and stage."""
    of_runs = [{run.stage: [getattr(run, name) for name in like] for run in runs} for runs in of_seeds]
    found = [way for runs in of_runs for way in runs.values()]
    return found[0] if all(way == found[0] for way in found) else of_runs


def _requirements(view: View) -> Expected:
    settings, stage = view.settings, view.stage
    value = VALUES[settings.get("column", "f1")][1]
    margin, savings = settings.get("above_baseline", {}), settings.get("savings", {})
    loss, spread, least = settings.get("loss", 1), settings.get("spread", 1), settings.get("seeds", 3)
    names = ["score", *(["above_baseline"] if view.baseline else []), "above_reference", "time", "memory", "spread"]
    table = Expected(["model", "dataset", *names, "seeds", "quality", "cost", "stability"])
    verdicts = ("quality", "cost", "stability")
    for row in view.trained:
        for entry in view.stages[stage]:
            scores = {
                name: [value(run) for run in view.runs(name, stage, entry)]
                for name in (row, view.reference, view.baseline)
                if name
            }
            if not scores[row]:
                continue
            own, is_reference = mean(scores[row]), row == view.reference
            base = _less(own, mean(scores.get(view.baseline, []))) if view.baseline else None
            above = None if is_reference else _less(own, mean(scores[view.reference]))
            costs = [
                None if is_reference else _per_cent(view, column, row, stage, entry, settings["time"])
                for column in ("total_minutes", "memory")
            ]
            apart = max(scores[row]) - min(scores[row]) if len(scores[row]) > 1 else None
            near = True if is_reference else _at_least(_rounded(above, 2), -loss)
            asked = savings.get(view.family(row))
            lower = (
                _or(
                    *(
                        _at_least(_minus(_rounded(cost, 1)), asked[n])
                        for cost, n in zip(costs, ("time", "memory"), strict=True)
                    )
                )
                if asked
                else None
            )
            lead = margin.get("reference", 5) if is_reference else margin.get("others", 3)
            close = _at_least(_minus(_rounded(apart, 2)), -spread)
            met = {
                "quality": _and(_at_least(_rounded(base, 2), lead), near),
                "cost": _and(lower, near),
                "stability": None if close and len(scores[row]) < least else close,
            }
            told = "not asked" if asked is None or is_reference else None
            numbers = [own, *([base] if view.baseline else []), above, *costs, apart, len(scores[row])]
            table.rows.append(
                [row, entry, *numbers, *(told if n == "cost" and told else _word(met[n]) for n in verdicts)]
            )
    return table


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def _rounded(value: float | None, decimals: int) -> float | None:
    """Return a figure as the table prints it."""
    return None if value is None else float(f"{value:.{decimals}f}")


def _at_least(value: float | None, limit: float) -> bool | None:
    return None if value is None else value >= limit


def _and(one: bool | None, other: bool | None) -> bool | None:
    """Return whether both hold, where None is not known."""
    return False if False in (one, other) else None if None in (one, other) else True


def _or(one: bool | None, other: bool | None) -> bool | None:
    return True if True in (one, other) else None if None in (one, other) else False


def _word(met: bool | None) -> str:
    return {True: "met", False: "not met", None: "not to be told"}[met]


def _pareto(view: View) -> Expected:
    settings, stage, rows = view.settings, view.stage, view.trained
    confidence, intervals = settings.get("confidence", 0.95), settings.get("intervals", True)
    name = view.called("f1", stage, *view.stages[stage])
    names = [name, f"{name}_sd", "low", "high", "minutes", "peak_memory_gib"]
    names += ["front", "dominated_by"]
    names += ["f1_no_significant_difference_from"] * intervals
    found = []
    for entry in view.stages[stage]:
        there = [row for row in rows if view.runs(row, stage, entry)]
        minutes = {row: _cost(view, "total_minutes", row, stage, entry, settings["time"]) for row in there}
        made = [row for row in there if minutes[row] is not None]  # the others do not train
        scores = {row: [*map(VALUES["f1"][1], view.runs(row, stage, entry))] for row in made}
        f1 = {row: mean(scores[row]) for row in made}
        memory = {row: _cost(view, "memory", row, stage, entry, settings["time"]) for row in made}
        owners = {view.words.owner(row, stage, entry): row for row in made}
        costs: list[tuple[dict[str, float | None], float]] = [({row: -float(f1[row] or 0) for row in made}, 1.0)]
        for values, column, own in ((minutes, "total_minutes", "time"), (memory, "memory", "memory")):
            repeated = [[COST[column][0](run) for run in view.runs(row, stage, entry)] for row in owners.values()]
            factor = repeated_factor(repeated, confidence)
            if factor is None and settings.get(f"{own}_tolerance"):
                factor = 1 + settings[f"{own}_tolerance"] / 100
            like = COST["total_minutes"][2] if own == "time" else []
            spent = {row: view.costs(row, stage, entry, settings["time"]) for row in made}
            if own == "time":
                spent = {row: [[run for run in runs if run.trains] for runs in spent[row]] for row in made}
            ways = [_ways(spent[row], like) for row in made]
            if factor is not None and all(way == ways[0] for way in ways):
                costs.append((values, factor))
        beaten = {row: [other for other in made if _dominates(other, row, costs)] for row in made}
        front = [row for row in made if not beaten[row]]
        run_of = {row: view.words.owner(row, stage, entry) for row in made}
        ranked = sorted(dict.fromkeys(run_of[row] for row in front), key=lambda run: f1[owners[run]])
        for row in made:
            place = {other: ranked.index(run_of[other]) for other in front}
            near = [other for other in front if row in front and abs(place[other] - place[row]) == 1]
            ends = [100 * end for end in view.paired[entry].score(view.number(row, entry)).score_interval(confidence)]
            numbers = [f1[row], deviation(scores[row]), *(ends if intervals else [None, None])]
            numbers += [(minutes[row] or np.nan) / 60, (memory[row] or np.nan) / 1024]
            apart = (
                [other for other in near if not _told_apart(view, row, other, entry, confidence)] if intervals else []
            )
            words = ["yes" if row in front else "no", ", ".join(each for each in front if each in beaten[row])]
            found.append([entry, row, *numbers, *words, *([", ".join(apart)] if intervals else [])])
    columns = ["dataset", "model", *names]
    kept = [place for place in range(len(columns)) if any(not pd.isna(row[place]) for row in found)]
    return Expected([columns[place] for place in kept], [[row[place] for place in kept] for row in found])


def repeated_factor(costs: Sequence[Sequence[float | None]], confidence: float) -> float | None:
    """Return by which factor costs of two models may differ by chance, from runs that differ in the seed alone."""
    logs = [np.log([cost for cost in each if cost is not None]) for each in costs]
    logs = [each for each in logs if len(each)]
    degrees = sum(len(each) - 1 for each in logs)
    if not degrees or min(map(len, logs)) < 2:
        return None
    pooled = np.sqrt(sum(((each - each.mean()) ** 2).sum() for each in logs) / degrees)
    fewest = min(map(len, logs))
    return float(np.exp(stdtrit(degrees, (1 + confidence) / 2) * pooled * np.sqrt(2 / fewest)))


def _dominates(one: str, other: str, costs: Sequence[tuple[Mapping[str, float | None], float]]) -> bool:
    pairs = [(float(values[one] or np.nan), float(values[other] or np.nan), factor) for values, factor in costs]
    return all(a <= b * factor for a, b, factor in pairs) and any(a * factor < b for a, b, factor in pairs)


def _told_apart(view: View, row: str, other: str, entry: str, confidence: float) -> bool:
    numbers = view.number(row, entry), view.number(other, entry)
    low, high = view.paired[entry].difference(*numbers).difference_interval(confidence)
    return low > 0 or high < 0


def _compute(view: View) -> Expected:
    stages = view.settings["time"]
    table = Expected(["model", "hardware", *(f"{stage}_hours" for stage in stages), "hours"])
    of_row = {
        row: {(s, run.path): run for s in stages for entry in view.stages[s] for run in view.runs(row, s, entry)}
        for row in view.rows
    }
    everything = {key: run for runs in of_row.values() for key, run in runs.items()}
    for name, runs in [*of_row.items(), ("all models", everything)]:
        for hardware in sorted({run.hardware or "unknown" for run in runs.values()}):
            cells = [
                [
                    (run.processes if run.memory_kind == "gpu" else 1) * run.seconds / 3600
                    for run in runs.values()
                    if run.stage == stage and (run.hardware or "unknown") == hardware
                ]
                for stage in stages
            ]
            total = sum(sum(each) for each in cells)
            table.rows.append([name, hardware, *(sum(each) if each else None for each in cells), total])
    return table


# Comparisons


def pairs_of(view: View) -> list[tuple[str, str]]:
    """Return the rows that are compared: those of `pairs`, or each with reference and baseline."""
    if view.settings.get("pairs"):
        return [(view.row_of[one], view.row_of[other]) for one, other in view.settings["pairs"]]
    return [
        (row, other)
        for row in view.rows
        for other in (view.reference, view.baseline)
        if other and other != row and not (row == view.baseline and other in view.rows)
    ]


def comparable(view: View) -> list[tuple[str, str, str]]:
    """Return every dataset with two rows to compare that have different runs on it."""
    return [
        (entry, row, other)
        for entry in view.stages[view.stage]
        for row, other in dict.fromkeys(pairs_of(view))
        if all(view.words.has_run(each, view.stage, entry) for each in (row, other))
        and not view.same(row, other, view.stage, entry)
    ]


def compared(view: View) -> list[dict[str, Any]]:
    """Return every comparison of two rows that have different runs on a dataset.

    `first` says whether no earlier one is of the same two runs: only those count for Holm's correction.
    """
    stage, confidence = view.stage, view.settings.get("confidence", 0.95)
    found: list[dict[str, Any]] = []
    for entry, row, other in comparable(view):
        runs = entry, frozenset(view.words.owner(each, stage, entry) for each in (row, other))
        paired, numbers = view.paired[entry], (view.number(row, entry), view.number(other, entry))
        difference: Estimate = paired.difference(*numbers)
        labels, (ours, theirs) = view.has(row, entry, "label")[0], (view.has(each, entry) for each in (row, other))
        micro, classes = view.words.score(stage, entry) == "f1_micro", range(labels.shape[1])
        groups = [slice(None)] if micro else [slice(number, number + 1) for number in classes]
        low, high = difference_interval(labels, ours, theirs, groups, confidence)
        found.append(
            {
                "dataset": entry,
                "model": row,
                "against": other,
                "f1_difference": 100 * difference.mean,
                "f1_difference_sd": deviation(100 * difference.values),
                "low": 100 * low,
                "high": 100 * high,
                "p": difference.p_value(),
                "mcnemar_p": mcnemar(labels, ours, theirs),
                "estimate": difference,
                "runs": runs,
                "first": runs not in [each["runs"] for each in found],
            }
        )
    counted = [each for each in found if each["first"]]
    corrected = multipletests([each["p"] for each in counted], method="holm")[1] if counted else []
    holm = {each["runs"]: p for each, p in zip(counted, corrected, strict=True)}
    for each in found:
        words = "better" if each["f1_difference"] > 0 else "worse"
        shared = any(view.words.shares_start(each[side], stage, each["dataset"]) for side in ("model", "against"))
        words += " (one seed)" if each["estimate"].seeds == 1 else " (shared start)" if shared else ""
        each["holm_p"] = holm[each["runs"]]
        each["result"] = words if each["holm_p"] <= 1 - confidence else "no difference shown"
    return found


def _significance(view: View) -> Expected:
    found, level = compared(view), 1 - view.settings.get("confidence", 0.95)
    counted = [each for each in found if each["first"]]
    names = ["dataset", "model", "against", "f1_difference", "f1_difference_sd", "low", "high", "p", "holm_p"]
    names += ["mcnemar_p", "result"]
    names = [name for name in names if name != "f1_difference_sd" or any(each[name] is not None for each in found)]
    said = [f"corrected for the {len(counted)} comparison"]
    for entry in dict.fromkeys(each["dataset"] for each in counted):
        for other in dict.fromkeys(each["against"] for each in counted if each["dataset"] == entry):
            parts = [each["estimate"] for each in counted if (each["dataset"], each["against"]) == (entry, other)]
            of_seeds, of_documents, given = (
                float(np.median([getattr(each, name) for each in parts]))
                for name in ("of_seeds", "of_documents", "of_documents_given_models")
            )
            sizes = parts[0].seeds, parts[0].documents
            smallest = smallest_difference(of_seeds, of_documents, *sizes, level, 0.8, given)
            if not (of_seeds or of_documents or given):
                said.append(f"unknown, since it is 0, against {other}")
            elif smallest is not None:
                said.append(f"{100 * smallest:.1f} points against {other}")
    return Expected(names, [[each[name] for name in names] for each in found], said)


def _answer(view: View) -> Expected:
    found, confidence = compared(view), view.settings.get("confidence", 0.95)
    names = ["dataset", "highest", "f1", "low", "high", "shown_better", "shown_worse", "no_significant_difference"]
    number = len([each for each in found if each["first"]])
    table = Expected(names, said=[f"all {number} comparisons"] if number > 1 else [])
    rows = list(dict.fromkeys(row for pair in pairs_of(view) for row in pair))
    for entry in view.stages[view.stage]:
        here = [each for each in found if each["dataset"] == entry]
        made = [row for row in rows if view.runs(row, view.stage, entry)]
        if not made:
            continue
        paired = view.paired[entry]
        f1 = {row: float(paired.f1().mean(axis=0)[view.number(row, entry)]) for row in made}
        best = [row for row in made if f1[row] == max(f1.values())]
        ends = paired.score(view.number(best[0], entry)).score_interval(confidence)
        shown = [each["holm_p"] <= 1 - confidence for each in here]
        better = [each["f1_difference"] > 0 for each in here]
        chosen = [
            [is_shown and is_better for is_shown, is_better in zip(shown, better, strict=True)],
            [is_shown and not is_better for is_shown, is_better in zip(shown, better, strict=True)],
            [not is_shown for is_shown in shown],
        ]
        words = [_in_words(here, each, word) for each, word in zip(chosen, ("than", "than", "from"), strict=True)]
        table.rows.append([entry, ", ".join(best), 100 * f1[best[0]], *(100 * end for end in ends), *words])
    return table


def _in_words(here: Sequence[Mapping[str, Any]], chosen: Sequence[bool], word: str) -> str:
    parts = []
    for other in dict.fromkeys(each["against"] for each in here):
        group = [
            (each["model"], is_chosen) for each, is_chosen in zip(here, chosen, strict=True) if each["against"] == other
        ]
        models = [model for model, is_chosen in group if is_chosen]
        if 1 < len(models) == len(group):
            parts.append(f"all {len(models)} ({word} {other})")
        elif models:
            parts.append(f"{', '.join(models)} ({word} {other})")
    return "; ".join(parts) or "none"


# Searches


def called(places: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return what columns of searched settings are called: by the dotted name, where the table has another such one."""
    taken = set(others)
    return [place if short(place) in taken else short(place) for place in places]


def _search(view: View) -> Expected:
    value, variants = VALUES[view.settings.get("column", "validation_f1")][1], view.words.variants(view.stage)
    rows = [(row, variant) for row in view.rows for variant in variants]
    table = Expected(["model", *map(short, variants[0])], [[row, *map(spelled, each.values())] for row, each in rows])
    for entry in view.stages[view.stage]:
        scores = [[value(run) for run in view.runs(row, view.stage, entry, variant)] for row, variant in rows]
        _add_means(table, entry, scores, any(len(each) > 1 for each in scores))
        if view.settings.get("spread"):
            _add(table, f"{entry}_maximum", [max(each) if each else None for each in scores])
            _add(table, f"{entry}_minimum", [min(each) if each else None for each in scores])
            _add(table, f"{entry}_difference", [max(each) - min(each) if len(each) > 1 else None for each in scores])
            _add(table, f"{entry}_seeds", [len(each) or None for each in scores])
    return _without(table, "model") if len(view.rows) == 1 and len(variants) > 1 else table


def _without(table: Expected, *names: str) -> Expected:
    """Return a table without the first column of each name."""
    for name in names:
        place = table.columns.index(name)
        for row in [table.columns, *table.rows]:
            row.pop(place)
    return table


def best_variant(view: View, row: str, entry: str, column: str) -> tuple[dict[str, Any], list[float]]:
    """Return the variant of a row with the highest mean of a score on validation, and all means, descending."""
    value, variants = VALUES[column][1], view.words.variants(view.stage)
    means = [float(mean(map(value, view.runs(row, view.stage, entry, each))) or 0) for each in variants]
    return variants[int(np.argmax(means))], sorted(means, reverse=True)


def _search_best(view: View) -> Expected:
    column = view.settings.get("column", "validation_f1")
    name, value = view.called(column, view.stage, *view.stages[view.stage]), VALUES[column][1]
    places = view.words.variants(view.stage)[0]
    others = ["dataset", "model", name, f"{name}_sd", "lead", "seeds"]
    table = Expected(["dataset", "model", *called(places, others), *others[2:]])
    for entry, row in view.made():
        best, means = best_variant(view, row, entry, column)
        scores = [value(run) for run in view.runs(row, view.stage, entry, best)]
        lead = means[0] - means[1] if len(means) > 1 else None
        table.rows.append(
            [entry, row, *map(spelled, best.values()), mean(scores), deviation(scores), lead, len(scores)]
        )
    one_seed = all(row[-3] is None for row in table.rows)
    return _without(table, *["model"] * (len(view.rows) == 1), *[f"{name}_sd"] * one_seed)


def state_kib(view: View, row: str, entry: str) -> float:
    """Return what the model of a row keeps of the longest text: 2 layers and 2 heads of width 4, 4 bytes per number."""
    tokens = view.words.reads(row, entry)[1] or 0
    numbers = 0
    for name in view.words.mechanisms(row, view.stage, entry):
        mechanism = view.words.experiment["mechanisms"][name]
        numbers += 2 * (2 * tokens * 4 if mechanism["kind"] == "sdpa" else mechanism["nb_features"] * 5)
    return 4 * numbers / 1024


def _state_size(view: View) -> Expected:
    stage, variants = view.stage, view.words.variants(view.stage)
    columns = [view.settings.get("by", "validation_accuracy"), view.settings.get("column", "accuracy")]
    names = [VALUES[column][0] for column in columns]
    others = ["dataset", "model", "state_kib", *names, *(f"{name}_sd" for name in names)]
    table = Expected(["dataset", "model", "state_kib", *called(variants[0], others)])
    several = view.several_seeds(view.rows, [stage])
    for name in names:
        table.columns += [name, *([f"{name}_sd"] if several else [])]
    for entry, row in view.made():
        best, _ = best_variant(view, row, entry, columns[0])
        cells: list[Cell] = [entry, row, state_kib(view, row, entry), *map(spelled, best.values())]
        for column in columns:
            scores = [VALUES[column][1](run) for run in view.runs(row, stage, entry, best)]
            cells += [mean(scores), *([deviation(scores)] if several else [])]
        table.rows.append(cells)
    return _without(table, "dataset") if len(view.stages[stage]) == 1 else table


def _trials(view: View) -> Expected:
    space = view.words.stages[view.stage]["tuning"]["space"]
    others = ["dataset", "model", "trial", "state", "epochs", "minutes", "validation_f1_macro_percent"]
    table = Expected(["dataset", "model", "trial", *called(space, others), others[-1], "state", "epochs", "minutes"])
    for entry, row in view.made():
        for run in view.runs(row, view.stage, entry):
            assert run.trials is not None
            for trial in run.trials.to_dict("records"):
                settings = [_setting(trial[place], each) for place, each in space.items()]
                score = None if pd.isna(trial["eval_f1_macro"]) else 100 * trial["eval_f1_macro"]
                ends = [score, trial["state"], trial["epochs"], trial["seconds"] / 60]
                table.rows.append([entry, row, trial["number"], *settings, *ends])
    alone = [name for place, name in enumerate(("dataset", "model")) if len({row[place] for row in table.rows}) == 1]
    return _without(table, *alone)


def _setting(value: Any, dimension: Mapping[str, Any]) -> str:
    return f"{value:.4g}" if isinstance(dimension.get("low"), float) else str(value)


# Trainings


def _history(view: View) -> Expected:
    (entry,), column = view.stages[view.stage], view.settings.get("column", "train_loss")
    curves = {row: curve for row in view.rows if (curve := curve_of(view, row, entry, column))}
    epochs = sorted({epoch for curve in curves.values() for epoch in curve})
    for row, curve in curves.items():
        seeds = len(view.runs(row, view.stage, entry))
        curves[row] = {epoch: values for epoch, values in curve.items() if np.isfinite(values).sum() == seeds}
    table = Expected(["epoch"], [[epoch] for epoch in epochs])
    for row, curve in curves.items():
        several = any(len(values) > 1 for values in curve.values())
        _add_means(table, row, [curve.get(epoch, []) for epoch in epochs], several)
    return table


def curve_of(view: View, row: str, entry: str, column: str) -> dict[int, list[float]]:
    """Return a column of the histories of a row by epoch, a value per seed."""
    curve: dict[int, list[float]] = {}
    for run in view.runs(row, view.stage, entry):
        if run.history is not None:
            for epoch, value in zip(run.history["epoch"], run.history[column], strict=True):
                curve.setdefault(int(epoch), []).append(float(value))
    return curve


class Points(list[tuple[float, float]]):
    """Evaluations of one seed: seconds of training and loss."""

    def frontier(self) -> list[tuple[float, float]]:
        """Return those that are better than all that took no longer."""
        kept: list[tuple[float, float]] = []
        for seconds, loss in sorted(self):
            if not kept or loss < kept[-1][1]:
                kept.append((seconds, loss))
        return kept

    def law(self) -> tuple[float, float] | None:
        """Return slope and intercept of the line through the logarithms of the frontier."""
        points = np.log(self.frontier() or np.empty((0, 2)))
        line = linregress(points[:, 0], points[:, 1]) if len(points) >= 3 else None
        return None if line is None else (float(line.slope), float(line.intercept))


def evaluations(view: View, curve: str, entry: str) -> dict[int, Points]:
    """Return the evaluations of the models of a curve by seed."""
    found: dict[int, Points] = {}
    for row in dict.fromkeys(view.row_of[model] for model in view.settings["curves"][curve]):
        for run in view.runs(row, view.stage, entry):
            assert run.history is not None
            for seconds, loss in zip(run.history["seconds"].cumsum(), run.history["eval_loss"], strict=True):
                points = found.setdefault(run.seed, Points())
                if seconds >= view.settings.get("after", 0):
                    points.append((seconds, loss))
    return found


def interval(values: Sequence[float], confidence: float) -> tuple[float | None, float | None]:
    """Return Student's interval of a mean; none of fewer than two values, or where one is missing."""
    if len(values) < 2 or any(np.isnan(values)):
        return None, None
    reach = stdtrit(len(values) - 1, (1 + confidence) / 2) * np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values) - reach), float(np.mean(values) + reach)


def _scaling(view: View) -> Expected:
    curves, against, confidence = view.settings["curves"], view.settings["against"], 0.95
    names = ["dataset", "curve", "exponent", "exponent_low", "exponent_high", "seconds", "loss", "difference", "low"]
    table = Expected([*names, "high", "result"])
    for entry in view.stages[view.stage]:
        points = {curve: seeds for curve in curves if (seeds := evaluations(view, curve, entry))}
        last = [each[-1][0] for seeds in points.values() for seed in seeds if (each := sorted(seeds[seed]))]
        budget = min(last, default=float("nan"))
        losses = {
            curve: {
                seed: min((loss for seconds, loss in seeds[seed] if seconds <= budget), default=float("nan"))
                for seed in sorted(seeds)
            }
            for curve, seeds in points.items()
        }
        for curve, seeds in points.items():
            slopes = [-law[0] for each in seeds.values() if (law := each.law())]
            theirs = losses.get(against, {})
            differences = [loss - theirs[seed] for seed, loss in losses[curve].items() if seed in theirs]
            low, high = (None, None) if curve == against else interval(differences, confidence)
            difference = float(np.mean(differences)) if differences and curve != against else None
            numbers = [mean(slopes), *interval(slopes, confidence), budget, float(np.mean([*losses[curve].values()]))]
            late = {
                name: [str(seed) for seed, loss in losses[name].items() if np.isnan(loss)]
                for name in dict.fromkeys([curve, against])
                if name in losses
            }
            of_seeds = [
                f"seed{'s' * (len(each) > 1)} {', '.join(each)} of {name}" for name, each in late.items() if each
            ]
            if against not in losses:
                result = f"no run of {against}"
            elif of_seeds:
                result = f"no evaluation in this time: {'; '.join(of_seeds)}"
            elif curve == against:
                result = "-"
            elif low is None or high is None:
                result = "one seed"
            else:
                result = "lower" if high < 0 else "higher" if low > 0 else "no difference shown"
            table.rows.append([entry, curve, *numbers, difference, low, high, result])
    return table


def geometry(
    view: View,
    row: str,
    entry: str,
    stage: str,
    measure: str,
    *,
    step: int,
    positions: Sequence[int],
    source: str = "model",
) -> list[float]:
    """Return what was measured of each layer, the mean over seeds and positions; of each random one of every seed."""
    layers: dict[tuple[int, int], list[float]] = {}
    for number, run in enumerate(view.runs(row, stage, entry)):
        for each in [] if run.geometry is None else run.geometry.to_dict("records"):
            wanted = each["step"] == step and each["source"] == source
            if wanted and (each["position"] in positions) and not pd.isna(each[measure]):
                layers.setdefault((number if source == "random" else 0, each["layer"]), []).append(each[measure])
    return [float(np.mean(values)) for values in layers.values()]


STEPS = (0, 7)
"""At which geometry is measured first and last."""


def _geometry(view: View) -> Expected:
    positions = view.settings.get("positions", [0])
    measured = {
        "symmetry_first": ("symmetry", STEPS[0], positions, "model"),
        "symmetry_last": ("symmetry", STEPS[1], positions, "model"),
        "symmetry_random": ("symmetry", STEPS[0], positions, "random"),
        "directionality_first": ("directionality", STEPS[0], positions, "model"),
        "directionality_last": ("directionality", STEPS[1], positions, "model"),
        "directionality_random": ("directionality", STEPS[0], positions, "random"),
        "later_first": ("upper_triangle", STEPS[0], [0], "model"),
        "later_last": ("upper_triangle", STEPS[1], [0], "model"),
    }
    table = Expected(["model", "dataset", "weights"])
    for name in measured:
        table.columns += [name, f"{name}_sd"]
    for row in view.rows:
        for entry in dict.fromkeys(entry for entries in view.stages.values() for entry in entries):
            stages = [stage for stage in view.stages if entry in view.stages[stage]]
            cells: list[Cell] = []
            for measure, step, at, source in measured.values():
                values = [
                    value
                    for stage in stages
                    for value in geometry(view, row, entry, stage, measure, step=step, positions=at, source=source)
                ]
                cells += [mean(values), deviation(values)]
            if any(cell is not None for cell in cells):
                table.rows.append([row, entry, "merged", *cells])
    return _without(table, "dataset") if len({row[1] for row in table.rows}) == 1 else table


def _correlation(view: View) -> Expected:
    stage, position = view.stage, view.settings.get("position", 0)
    names = ["dataset", "difference in", "pairs", "pearson", "low", "high", "pearson_p", "spearman", "spearman_p"]
    table = Expected(names)
    for entry in view.stages[stage]:
        differences = []
        for one, other in pairs_of_runs(view, entry):
            found = []
            for row in (one, other):
                f1 = mean(map(VALUES["f1"][1], view.runs(row, stage, entry)))
                of_weights = [
                    mean(geometry(view, row, entry, stage, measure, step=STEPS[1], positions=[position]))
                    for measure in ("symmetry", "directionality")
                ]
                found.append(np.array([f1, *of_weights]))
            differences.append(found[0] - found[1])
        f1, symmetry, directionality = np.array(differences).T
        measures = {"symmetry": symmetry, "directionality": directionality}
        for name, values in {**measures, "symmetry + directionality": symmetry + directionality}.items():
            pearson, spearman = pearsonr(f1, values), spearmanr(f1, values).statistic
            ends = pearson.confidence_interval(0.95)
            numbers = [len(f1), pearson.statistic, *ends, pearson.pvalue, spearman]
            numbers.append(permuted_p(f1, values, spearman))
            table.rows.append([entry, name, *map(float, numbers)])
    return table


def permuted_p(one: Sequence[float], other: Sequence[float], found: float) -> float:
    """Return the two-sided p-value of a rank correlation over all permutations of few pairs."""
    correlations = np.array([spearmanr(one, permuted).statistic for permuted in permutations(other)])
    return min(1, 2 * min((correlations >= found - 1e-9).mean(), (correlations <= found + 1e-9).mean()))


def pairs_of_runs(view: View, entry: str) -> list[tuple[str, str]]:
    """Return the rows of `base` with different runs on a dataset, each two runs once."""
    found: dict[frozenset[str], tuple[str, str]] = {}
    for model, base in view.settings["base"].items():
        rows = view.row_of[model], view.row_of[base]
        if all(view.words.has_run(row, view.stage, entry) for row in rows) and not view.same(*rows, view.stage, entry):
            runs = frozenset(view.words.owner(row, view.stage, entry) for row in rows)
            found.setdefault(runs, rows)
    return list(found.values())


# Predictions


def _classes(view: View) -> Expected:
    if len(view.rows) == 1:
        return Expected(["label", "precision", "recall", "f1", "support"], _scores_of_classes(view, view.rows[0]))
    found = [_scores_of_classes(view, row) for row in view.rows]
    rows = [[lines[0][0], *(line[3] for line in lines), lines[0][4]] for lines in zip(*found, strict=True)]
    return Expected(["label", *(f"{row}_f1" for row in view.rows), "support"], rows)


def _scores_of_classes(view: View, row: str) -> list[Any]:
    (entry,) = view.stages[view.stage]
    names = view.words.datasets[entry]["labels"]
    found = []
    for true, given in zip(view.has(row, entry, "label"), view.has(row, entry), strict=True):
        of_classes = np.array(precision_recall_fscore_support(true, given, zero_division=0), dtype=float).T
        right, members = (true & given).sum(), (given.sum(), true.sum())
        # Of documents with one class each, all three are the accuracy.
        micro = [right / max(each, 1) for each in (*members, np.mean(members))]
        found.append([*of_classes, [*micro, members[1]], [*of_classes[:, :3].mean(axis=0), members[1]]])
    means = np.mean(np.array([[list(map(float, line)) for line in each] for each in found]), axis=0)
    own = ("micro average" if view.words.sets(entry) else "accuracy", "macro average")
    labels = [*(f"class {name}" if name in own else name for name in names), *own]
    return [[label, *(100 * line[:3]), line[3]] for label, line in zip(labels, means, strict=True)]


def _detection(view: View) -> Expected:
    (entry,), names = view.stages[view.stage], view.words.datasets[view.stages[view.stage][0]]["labels"]
    positive = view.settings.get("positive")
    number = len(names) - 1 if positive is None else names.index(positive)
    columns = ["threshold", "f1_half", "f1_threshold", "roc_auc", "average_precision", "calibration_error"]
    found: dict[str, list[list[float]]] = {}
    for row in view.rows:
        for run in view.runs(row, view.stage, entry):
            assert run.predictions is not None
            splits = dict(list(run.predictions.groupby("split")))
            probabilities = {split: np.stack(part["probabilities"]) for split, part in splits.items()}
            labels = {split: part["label"].to_numpy() for split, part in splits.items()}
            threshold = threshold_of(probabilities["validation"][:, number], labels["validation"] == number, "f1")
            scores = detection_scores(labels["test"] == number, probabilities["test"][:, number], threshold)
            error = calibration_error(probabilities["test"], labels["test"], 10)
            found.setdefault(row, []).append([threshold, *(100 * scores[name] for name in columns[1:-1]), 100 * error])
    several = any(len(each) > 1 for each in found.values())
    table = Expected(["model"], [[row] for row in view.rows])
    for place, name in enumerate(columns):
        _add_means(table, name, [[line[place] for line in found[row]] for row in view.rows], several)
    return table


def _abstention(view: View) -> Expected:
    ends = [f"{name}{end}" for name in ("decided", "wrong") for end in ("", "_low", "_high")]
    table = Expected(["dataset", "model", "certainty", "confidence", *ends, "left"])
    for entry, row in view.made():
        runs = view.runs(row, view.stage, entry)
        for sure in dict.fromkeys([None, view.settings.get("certainty", 0.9)]):
            seeds = list(zip(*(_abstained(run, view.settings["wrong"], sure) for run in runs), strict=True))
            cells = [mean(each) for each in seeds]
            for place in (place for place in (1, 4) if cells[place] is not None):
                known = [each for each in seeds[place] if each is not None]
                spread = deviation(known)
                reach = stdtrit(len(known) - 1, 0.975) * spread / len(known) ** 0.5 if spread is not None else 0
                middle, low, high = cells[place : place + 3]
                cells[place + 1] = max(middle - np.hypot(middle - low, reach), 0)
                cells[place + 2] = min(middle + np.hypot(high - middle, reach), 100)
            table.rows.append([entry, row, sure and 100 * sure, *cells])
    return table


def _abstained(run: Made, wrong: float, certainty: float | None) -> list[float | None]:
    """Return the least confidence of a run in percent, shares with their intervals, and the documents that are left."""
    assert run.predictions is not None
    found = []
    for split in ("validation", "test"):
        part = run.predictions[run.predictions["split"] == split]
        found.append((part["prediction"] == part["label"], part["probabilities"].map(max)))
    try:
        least = least_confidence(*found[0], wrong, certainty)
    except DataError:
        least = np.inf
    right, confidence = found[1]
    errors, cells = 1 - right[confidence >= least], [None if least == np.inf else 100 * least]
    for count, of in ((len(errors), len(right)), (errors.sum(), len(errors))):
        low = beta.ppf(0.025, count, of - count + 1) if count else 0
        high = beta.ppf(0.975, count + 1, of - count) if count < of else 1
        cells += [100 * each for each in (count / of, low, high)] if of else [None] * 3
    return [*cells, len(right) - len(errors)]


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> float:
    """Return the expected calibration error of predictions as a fraction."""
    right = probabilities.argmax(axis=1) == labels
    return expected_calibration_error(reliability(right, probabilities.max(axis=1), bins))


def by_group(view: View, row: str, entry: str, variant: Mapping[str, Any] | None = None) -> dict[int, list[float]]:
    """Return the accuracy of a row in per cent by group of documents, one value per seed."""
    found: dict[int, list[float]] = {}
    for run in view.runs(row, view.stage, entry, variant):
        test = _test(run)
        for group, part in test.groupby("group"):
            found.setdefault(int(group), []).append(100 * float((part["label"] == part["prediction"]).mean()))
    return found


def _groups(view: View) -> Expected:
    (entry,), label = view.stages[view.stage], view.settings.get("label", "distance")
    found = {row: by_group(view, row, entry) for row in view.rows}
    groups = sorted({group for each in found.values() for group in each})
    several = any(len(values) > 1 for each in found.values() for values in each.values())
    if view.settings.get("rows") == "groups":
        table = Expected([label], [[str(group)] for group in groups])
        columns = {row: [found[row][group] for group in groups] for row in view.rows}
    else:
        table = Expected(["model"], [[row] for row in view.rows])
        columns = {f"{label}_{group}": [found[row][group] for row in view.rows] for group in groups}
    for name, cells in columns.items():
        _add_means(table, name, cells, several)
    return table


def _errors(view: View) -> Expected:
    (entry,), by = view.stages[view.stage], view.settings.get("by", "words")
    texts = view.words.texts(entry).set_index("id")
    parts: dict[str, list[str]] = {}
    """By name of a part the ids of its documents."""
    if by == "language":
        shares = texts["language"].value_counts(normalize=True)
        named = texts["language"].where(texts["language"].map(shares) >= view.settings["threshold"], "other")
        parts = {name: list(named.index[named == name]) for name in named.value_counts().index}
    elif by == "near_copy":
        for value, name in ((False, "no near copy in training"), (True, "near copy in training")):
            parts[name] = list(texts.index[texts["near_copy"] == value])
    else:
        limits = np.unique(np.quantile(texts["words"], [0.25, 0.5, 0.75]))
        for number in range(len(limits) + 1):
            low, high = (-np.inf, *limits)[number], (*limits, np.inf)[number]
            part = texts[(texts["words"] > low) & (texts["words"] <= high)]
            least, most = part["words"].min(), part["words"].max()
            parts[f"{least} to {most} words" if least < most else f"{least} words"] = list(part.index)
    table = Expected(["model"], [[row] for row in view.rows])
    several = view.several_seeds(view.rows, [view.stage])
    for name, ids in parts.items():
        if not ids:
            continue
        cells = []
        for row in view.rows:
            tests = [_test(run).set_index("id").loc[ids] for run in view.runs(row, view.stage, entry)]
            cells.append([100 * float((test["label"] != test["prediction"]).mean()) for test in tests])
        _add_means(table, name, cells, several)
    return table


TABLES: dict[str, Callable[[View], Expected]] = {
    "stage": _stage,
    "requirements": _requirements,
    "pareto": _pareto,
    "compute": _compute,
    "significance": _significance,
    "answer": _answer,
    "search": _search,
    "search_best": _search_best,
    "state_size": _state_size,
    "trials": _trials,
    "history": _history,
    "scaling": _scaling,
    "geometry": _geometry,
    "correlation": _correlation,
    "classes": _classes,
    "detection": _detection,
    "abstention": _abstention,
    "groups": _groups,
    "errors": _errors,
}
