"""What every table of a study must show, computed from the numbers of its runs alone: one function per kind."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from expected_runs import Made, Words, short
from scipy.special import stdtrit
from statsmodels.stats.multitest import multipletests

from lib.evaluation.statistics import Estimate, PairedPredictions, mcnemar_test, smallest_difference

Cell = str | float | int | None
LEVEL = 0.05
BESIDE = {
    "difference": ("reference", "baseline"),
    "relative": ("reference",),
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
DIVIDED = {"detection", "spread", "history", "groups", "errors", "parameters", "confusion", "trials_figure"}
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
    "f1": ("f1_macro_percent", lambda run: 100 * run.metrics["test_f1_macro"], True),
    "accuracy": ("accuracy_percent", lambda run: 100 * run.metrics["test_accuracy"], True),
    "matthews": ("matthews", lambda run: run.metrics["test_matthews"], True),
    "validation_f1": ("validation_f1_macro_percent", lambda run: 100 * run.metrics["eval_f1_macro"], True),
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
        beside = {name: report.get(name) for name in BESIDE.get(kind, ())}
        self.reference = self.row_of.get(beside.get("reference") or "")
        self.baseline = self.row_of.get(beside.get("baseline") or "")
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
                if not places and words.has_run(row, stage, entry):
                    places = [(stage, entry)]
                    seeds[stage, entry] = words.seed_before((stage, entry), seed)
                runs += [words.made(row, *place, seeds[place]) for place in places]
            found.append(runs)
        return found

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
        return PairedPredictions(
            models=models,
            labels=tests[0][0]["label"].to_numpy(),
            predictions=np.array([[each["prediction"].to_numpy() for each in of_seed] for of_seed in tests]),
            documents=np.arange(len(tests[0][0])),
            classes=len(self.words.datasets[entry]["labels"]),
        )

    def number(self, row: str, entry: str) -> int:
        """Return the place of a row's run in `paired`."""
        return list(self.paired[entry].models).index(self.words.owner(row, self.stage, entry))


def _test(run: Made) -> pd.DataFrame:
    assert run.predictions is not None
    return run.predictions[run.predictions["split"] == "test"]


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
    columns = view.settings["columns"]
    of_stage = {stage: columns[stage] if isinstance(columns, dict) else columns for stage in view.passed}
    one = len({column for each in of_stage.values() for column in each}) == 1
    several = view.several_seeds(view.rows, view.passed)
    table = Expected(["model"], [[row] for row in view.rows])
    for stage in view.passed:
        for entry in view.stages[stage]:
            if len(view.stages) == 1:
                place = entry
            else:
                place = stage if all(len(each) == 1 for each in view.stages.values()) else f"{stage}_{entry}"
            for column in of_stage[stage]:
                name, value, is_score = VALUES[column]
                label = place if one else f"{place}_{name}"
                cells = [[value(run) for run in view.runs(row, stage, entry)] for row in view.rows]
                _add(table, label, map(mean, cells))
                if is_score and several:
                    _add(table, f"{label}_sd", map(deviation, cells))
    if any("memory" in each for each in of_stage.values()):
        kinds = [
            {run.memory_kind for stage in view.passed for at in view.stages[stage] for run in view.runs(row, stage, at)}
            for row in view.rows
        ]
        _add(table, "memory_kind", [", ".join(sorted(each)) for each in kinds])
    return table


def _add(table: Expected, name: str, cells: Iterable[Cell]) -> None:
    table.columns.append(name)
    for row, cell in zip(table.rows, cells, strict=True):
        row.append(cell)


def _difference(view: View) -> Expected:
    columns, stage = view.settings.get("columns", ["f1"]), view.stage
    others = list(dict.fromkeys(row for row in (view.reference, view.baseline) if row))
    several = view.several_seeds([*view.rows, *others], [stage])
    table = Expected(["model"], [[row] for row in view.rows])
    for entry in view.stages[stage]:
        for column in columns:
            name, value, _ = VALUES[column]
            label = entry if len(columns) == 1 else f"{entry}_{name}"
            own = {row: [value(run) for run in view.runs(row, stage, entry)] for row in [*view.rows, *others]}
            shown = {label: [own[row] for row in view.rows]}
            for other in others:
                if own[other]:
                    shown[f"{label}_against_{other}"] = [
                        []
                        if not own[row] or view.same(row, other, stage, entry)
                        else [_less(ours, theirs) for ours, theirs in zip(own[row], own[other], strict=True)]
                        for row in view.rows
                    ]
            for each, cells in shown.items():
                _add(table, each, map(mean, cells))
                if several:
                    _add(table, f"{each}_sd", map(deviation, cells))
    return table


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


COST: dict[str, tuple[Callable[[Made], float | None], Callable[[Sequence[float]], float], str | None]] = {
    "memory": (lambda run: run.memory, max, "memory_kind"),
    "total_minutes": (lambda run: run.seconds if run.trains else None, sum, "hardware"),
    "parameters": (lambda run: run.parameters["total"], max, None),
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


def _per_cent(view: View, column: str, row: str, priced: str, entry: str, stages: Sequence[str]) -> float | None:
    """Return by how many per cent a row costs more than the reference."""
    like, places = COST[column][2], (row, view.reference)
    if not all(view.words.has_run(str(each), priced, entry) for each in places):
        return None
    costs = [_cost(view, column, str(each), priced, entry, stages) for each in places]
    ways = [
        {str(getattr(run, like)) for runs in view.costs(str(each), priced, entry, stages) for run in runs}
        for each in places
        if like
    ]
    if None in costs or (ways and ways[0] != ways[1]):
        return None
    return 100 * (costs[0] / costs[1] - 1)  # type: ignore[operator]


def _relative(view: View) -> Expected:
    groups = [[group] if isinstance(group, str) else group for group in view.settings["stage"]]
    rows = [row for row in view.rows if row != view.reference]
    table = Expected(["model"], [[row] for row in rows])
    for group in groups:
        priced = group[-1]
        for entry in view.stages[priced]:
            name = "_".join([*group, entry]) if len(groups) > 1 else entry
            _add(table, name, [_per_cent(view, view.settings["column"], row, priced, entry, group) for row in rows])
    return table


def _requirements(view: View) -> Expected:
    settings, stage = view.settings, view.stage
    value = VALUES[settings.get("column", "f1")][1]
    margin, savings = settings.get("above_baseline", {}), settings.get("savings", {})
    loss, spread, least = settings.get("loss", 1), settings.get("spread", 1), settings.get("seeds", 3)
    names = ["score", *(["above_baseline"] if view.baseline else []), "above_reference", "time", "memory", "spread"]
    table = Expected(["model", "dataset", *names, "seeds", "quality", "cost", "stability"])
    verdicts = ("quality", "cost", "stability")
    for row in view.trained:
        found = []
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
            near = True if is_reference else _at_least(above, -loss)
            asked = savings.get(view.family(row))
            lower = (
                _or(*(_at_least(_minus(cost), asked[n]) for cost, n in zip(costs, ("time", "memory"), strict=True)))
                if asked
                else None
            )
            lead = margin.get("reference", 5) if is_reference else margin.get("others", 3)
            close = _at_least(_minus(apart), -spread)
            met = {
                "quality": _and(_at_least(base, lead), near),
                "cost": _and(lower, near),
                "stability": None if close and len(scores[row]) < least else close,
            }
            found.append(met)
            told = "not asked" if asked is None or is_reference else None
            numbers = [own, *([base] if view.baseline else []), above, *costs, apart, len(scores[row])]
            table.rows.append(
                [row, entry, *numbers, *(told if n == "cost" and told else _word(met[n]) for n in verdicts)]
            )
        if len(view.stages[stage]) > 1:
            told = "not asked" if savings.get(view.family(row)) is None or row == view.reference else None
            words = [told if n == "cost" and told else _everywhere([met[n] for met in found]) for n in verdicts]
            table.rows.append([row, "all", *[None] * (len(names) + 1), *words])
    return table


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def _at_least(value: float | None, limit: float) -> bool | None:
    return None if value is None else round(value, 9) >= limit


def _and(one: bool | None, other: bool | None) -> bool | None:
    """Return whether both hold, where None is not known."""
    return False if False in (one, other) else None if None in (one, other) else True


def _or(one: bool | None, other: bool | None) -> bool | None:
    return True if True in (one, other) else None if None in (one, other) else False


def _word(met: bool | None) -> str:
    return {True: "met", False: "not met", None: "not to be told"}[met]


def _everywhere(verdicts: Sequence[bool | None]) -> str:
    if False in verdicts:
        return f"not met (on {verdicts.count(False)} of {len(verdicts)})"
    return _word(None if None in verdicts else True)


def _pareto(view: View) -> Expected:
    settings, stage, rows = view.settings, view.stage, view.trained
    confidence, intervals = settings.get("confidence", 0.95), settings.get("intervals", True)
    names = [
        "f1_macro_percent",
        "f1_macro_percent_sd",
        "low",
        "high",
        "minutes",
        "peak_memory_gib",
        "front",
        "dominated_by",
    ]
    names += ["f1_not_told_apart_from"] * intervals
    found = []
    for entry in view.stages[stage]:
        made = [row for row in rows if view.runs(row, stage, entry)]
        scores = {row: [100 * run.metrics["test_f1_macro"] for run in view.runs(row, stage, entry)] for row in made}
        f1 = {row: mean(scores[row]) for row in made}
        minutes = {row: _cost(view, "total_minutes", row, stage, entry, settings["time"]) for row in made}
        memory = {row: _cost(view, "memory", row, stage, entry, settings["time"]) for row in made}
        owners = {view.words.owner(row, stage, entry): row for row in made}
        costs: list[tuple[dict[str, float | None], float]] = [({row: -float(f1[row] or 0) for row in made}, 1.0)]
        for values, column, own in ((minutes, "total_minutes", "time"), (memory, "memory", "memory")):
            repeated = [[COST[column][0](run) for run in view.runs(row, stage, entry)] for row in owners.values()]
            factor = _repeated(repeated, confidence)
            if factor is None and settings.get(f"{own}_tolerance"):
                factor = 1 + settings[f"{own}_tolerance"] / 100
            if factor is not None:
                costs.append((values, factor))
        beaten = {row: [other for other in made if _dominates(other, row, costs)] for row in made}
        front = [row for row in made if not beaten[row]]
        ranked = sorted(front, key=lambda row: (f1[row], front.index(row)))
        for row in made:
            near = [other for other in front if row in front and abs(ranked.index(other) - ranked.index(row)) == 1]
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


def _repeated(costs: Sequence[Sequence[float | None]], confidence: float) -> float | None:
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
    for name, runs in [*of_row.items(), ("all", everything)]:
        for hardware in sorted({run.hardware or "unknown" for run in runs.values()}):
            cells = [
                [
                    run.processes * run.seconds / 3600
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


def compared(view: View) -> list[dict[str, Any]]:
    """Return every comparison of two rows: one per dataset and pair of different runs."""
    stage, pairs = view.stage, pairs_of(view)
    confidence = view.settings.get("confidence", 0.95)
    found = []
    for entry in view.stages[stage]:
        seen: set[frozenset[str]] = set()
        for row, other in pairs:
            if not (view.runs(row, stage, entry) and view.runs(other, stage, entry)):
                continue
            runs = frozenset(view.words.owner(each, stage, entry) for each in (row, other))
            if len(runs) == 1 or runs in seen:
                continue
            seen.add(runs)
            paired, numbers = view.paired[entry], (view.number(row, entry), view.number(other, entry))
            difference: Estimate = paired.difference(*numbers)
            right = paired.right()
            low, high = difference.difference_interval(confidence)
            found.append(
                {
                    "dataset": entry,
                    "model": row,
                    "against": other,
                    "f1_difference": 100 * difference.mean,
                    "f1_difference_sd": 100 * np.std(difference.values, ddof=1) if difference.seeds > 1 else None,
                    "low": 100 * low,
                    "high": 100 * high,
                    "p": difference.p_value(),
                    "mcnemar_p": mcnemar_test(right[:, numbers[0]], right[:, numbers[1]]),
                    "estimate": difference,
                }
            )
    if found:
        corrected = multipletests([each["p"] for each in found], method="holm")[1]
        for each, p in zip(found, corrected, strict=True):
            words = "better" if each["f1_difference"] > 0 else "worse"
            words += "" if each["estimate"].seeds > 1 else " (one seed)"
            each |= {"holm_p": p, "result": words if p <= 1 - confidence else "no difference shown"}
    return found


def _significance(view: View) -> Expected:
    found, level = compared(view), 1 - view.settings.get("confidence", 0.95)
    names = [
        "dataset",
        "model",
        "against",
        "f1_difference",
        "f1_difference_sd",
        "low",
        "high",
        "p",
        "holm_p",
        "mcnemar_p",
    ]
    names = [name for name in [*names, "result"] if name != "f1_difference_sd" or any(each[name] for each in found)]
    said = [f"corrected for the {len(found)} comparisons" if len(found) != 1 else "corrected for the 1 comparison"]
    for entry in dict.fromkeys(each["dataset"] for each in found):
        for other in dict.fromkeys(each["against"] for each in found if each["dataset"] == entry):
            parts = [each["estimate"] for each in found if (each["dataset"], each["against"]) == (entry, other)]
            smallest = smallest_difference(
                float(np.median([each.of_seeds for each in parts])),
                float(np.median([each.of_documents for each in parts])),
                parts[0].seeds,
                parts[0].documents,
                level,
                0.8,
            )
            if smallest is not None:
                said.append(f"{100 * smallest:.1f} points against {other}")
    return Expected(names, [[each[name] for name in names] for each in found], said)


def _answer(view: View) -> Expected:
    found, confidence = compared(view), view.settings.get("confidence", 0.95)
    names = ["dataset", "highest", "f1", "low", "high", "shown_better", "shown_worse", "not_told_apart"]
    table = Expected(names, said=[f"all {len(found)} comparisons"] if len(found) > 1 else [])
    rows = list(dict.fromkeys(row for pair in pairs_of(view) for row in pair))
    for entry in dict.fromkeys(each["dataset"] for each in found):
        here = [each for each in found if each["dataset"] == entry]
        paired = view.paired[entry]
        made = [row for row in rows if view.runs(row, view.stage, entry)]
        f1 = {row: float(paired.f1().mean(axis=0)[view.number(row, entry)]) for row in made}
        best = max(made, key=lambda row: f1[row])
        ends = paired.score(view.number(best, entry)).score_interval(confidence)
        shown = [each["holm_p"] <= 1 - confidence for each in here]
        signs = [each["f1_difference"] > 0 for each in here]
        chosen = [
            [a and b for a, b in zip(shown, signs, strict=True)],
            [a and not b for a, b in zip(shown, signs, strict=True)],
            [not each for each in shown],
        ]
        words = [_in_words(here, each) for each in chosen]
        table.rows.append([entry, best, 100 * f1[best], *(100 * end for end in ends), *words])
    return table


def _in_words(here: Sequence[Mapping[str, Any]], chosen: Sequence[bool]) -> str:
    parts = []
    for other in dict.fromkeys(each["against"] for each in here):
        group = [
            (each["model"], is_chosen) for each, is_chosen in zip(here, chosen, strict=True) if each["against"] == other
        ]
        models = [model for model, is_chosen in group if is_chosen]
        if 1 < len(models) == len(group):
            parts.append(f"all {len(models)} (than {other})")
        elif models:
            parts.append(f"{', '.join(models)} (than {other})")
    return "; ".join(parts) or "none"


def _spread(view: View) -> Expected:
    (entry,), value = view.stages[view.stage], VALUES[view.settings.get("column", "f1")][1]
    variants = view.words.variants(view.stage)
    settings = [short(place) for place in variants[0]]
    table = Expected(["model", *settings, "maximum", "minimum", "difference", "seeds"])
    for row in view.rows:
        for variant in variants:
            scores = [value(run) for run in view.runs(row, view.stage, entry, variant)]
            apart = max(scores) - min(scores) if len(scores) > 1 else None
            table.rows.append([row, *map(str, variant.values()), max(scores), min(scores), apart, len(scores)])
    return table


TABLES: dict[str, Callable[[View], Expected]] = {
    "stage": _stage,
    "difference": _difference,
    "relative": _relative,
    "requirements": _requirements,
    "pareto": _pareto,
    "compute": _compute,
    "significance": _significance,
    "answer": _answer,
    "spread": _spread,
}
