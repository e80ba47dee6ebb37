"""What every figure of a study must show, computed from the numbers of its runs alone: one function per kind."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from expected_runs import Made, short, spelled
from expected_tables import (
    COST,
    STEPS,
    VALUES,
    View,
    _cost,
    _test,
    _ways,
    best_variant,
    by_group,
    calibration_error,
    curve_of,
    deviation,
    evaluations,
    geometry,
    mean,
    repeated_factor,
    state_kib,
)
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.special import softmax

from lib.evaluation.calibration import joined, reliability

LEAST = np.finfo(np.float32).tiny
"""Probabilities below count as this."""
Points = list[tuple[float, float]]
BASELINE = "baseline"
FRONT = "front"


@dataclass
class Drawn:
    """A figure: by title of a panel and name of an artist its points, and the legend."""

    panels: dict[str, dict[str, Points]] = field(default_factory=dict)
    legend: list[str] | None = None
    """None = it is not compared."""

    def add(self, title: str, name: str, points: Iterable[tuple[float, float]]) -> None:
        """Add the points of an artist."""
        self.panels.setdefault(title, {})[name] = [(float(x), float(y)) for x, y in points]


# What is drawn


def read(figure: Figure, kind: str) -> Drawn:
    """Return what a figure of a kind draws."""
    found = Drawn()
    for axes in figure.axes:
        title = axes.get_title(loc="left") or axes.get_title()
        names = {"bars": f"{axes.get_xlabel().partition(' [')[0]}/{title}", "trials": axes.get_xlabel()}
        title = names.get(kind, title)
        if not title:
            continue  # a scale of colours, or the lower panel of a calibration
        panel: dict[str, Points] = found.panels.setdefault(title, {})
        for line in axes.lines:
            gid, points = line.get_gid(), [(float(x), float(y)) for x, y in zip(*line.get_data(), strict=True)]
            if gid is not None:
                panel[str(gid)] = [point for point in points if not math.isnan(point[1])]
            elif kind == "score_time" and line.get_linestyle() == "--":
                panel[BASELINE] = points[:1]
            elif kind == "score_time" and len(points) > 1 and same_color(line.get_color(), "0.65"):
                panel[FRONT] = points[1::2]
        for patch in axes.patches:
            if kind == "bars" and patch.get_gid() is not None:
                panel[str(patch.get_gid())] = [(patch.get_width(), 0)]  # type: ignore[attr-defined]
        for collection in axes.collections:
            if kind == "trials" and collection.get_gid() is not None:
                name = str(collection.get_gid())
                panel[name] = panel.get(name, []) + [
                    (float(x), float(y)) for x, y in np.ma.getdata(collection.get_offsets())
                ]
        for image in axes.images:
            values = np.ma.filled(np.ma.asarray(image.get_array(), dtype=float), np.nan)
            panel["image"] = [(row, value) for row, line in enumerate(values) for value in line]
        if kind == "score_intervals":
            _read_intervals(axes, panel)
        if kind in ("bars", "score_intervals"):
            found.legend = [*(found.legend or []), *(label.get_text() for label in axes.get_yticklabels())]
    if kind not in ("bars", "score_intervals"):
        legends = [*figure.legends, *(legend for axes in figure.axes if (legend := axes.get_legend()))]
        found.legend = [text.get_text() for legend in legends for text in legend.get_texts()]
    return found


def _read_intervals(axes: Any, panel: dict[str, Points]) -> None:
    """Add each bar and the ends of its interval, by the name at the axis."""
    ends = axes.collections[0].get_segments()
    for label, bar, ((low, _), (high, _)) in zip(axes.get_yticklabels(), axes.patches, ends, strict=True):
        panel[label.get_text()] = [(bar.get_width(), 0), (low, 0), (high, 0)]


# What must be


def expected_figure(view: View) -> Drawn:
    """Return what a figure must show."""
    return FIGURES[view.settings["kind"]](view)


def _shown(view: View, rows: Sequence[str]) -> list[str]:
    """Return the datasets of the only stage on which any of these rows has runs."""
    return [entry for entry in view.stages[view.stage] if any(view.runs(row, view.stage, entry) for row in rows)]


def _made(view: View, rows: Sequence[str], entry: str) -> list[str]:
    return [row for row in rows if view.runs(row, view.stage, entry)]


def _drawn_rows(view: View, drawn: Drawn) -> list[str]:
    return [row for row in view.rows if any(row in panel for panel in drawn.panels.values())]


LABELS = {"memory": "memory", "minutes": "time", "f1": "F1", "accuracy": "accuracy", "parameters": "parameters"}


def _bars(view: View) -> Drawn:
    drawn, names = Drawn(), []
    for column in view.settings["columns"]:
        value = VALUES[column][1]
        for entry in _shown(view, view.rows):
            means = {row: mean(map(value, view.runs(row, view.stage, entry))) for row in _made(view, view.rows, entry)}
            micro = column == "f1" and view.words.score(view.stage, entry) == "f1_micro"
            label = "micro-F1" if micro else LABELS[column]
            if column == "memory":
                kinds = {run.memory_kind for row in means for run in view.runs(row, view.stage, entry)}
                label = f"peak {'GPU' if 'gpu' in kinds else 'resident'} memory" if len(kinds) == 1 else label
            for row, each in means.items():
                drawn.add(f"{label}/{entry}", row, [(each or 0, 0)])
            names += sorted(means, key=lambda row: (means[row] is None, means[row] or 0))
    drawn.legend = names
    return drawn


def _loss(view: View) -> Drawn:
    drawn, column = Drawn(), view.settings.get("column", "train_loss")
    factor = 100 if column == "eval_f1_macro" else 1
    for entry in _shown(view, view.rows):
        for row in view.rows:
            curve = curve_of(view, row, entry, column)
            places: dict[int, list[float]] = {epoch: [epoch] for epoch in curve}
            if view.settings.get("against") == "minutes":
                runs = [run.history for run in view.runs(row, view.stage, entry) if run.history is not None]
                places = {epoch: [float(history["seconds"][:epoch].sum()) / 60 for history in runs] for epoch in curve}
            if curve:
                points = [(mean(places[epoch]) or 0, factor * (mean(values) or 0)) for epoch, values in curve.items()]
                drawn.add(entry, row, points)
    drawn.legend = _drawn_rows(view, drawn)
    return drawn


def _score_time(view: View) -> Drawn:
    drawn, stage, value = Drawn(), view.stage, VALUES[view.settings.get("column", "f1")][1]
    for entry in view.stages[stage]:
        places = {}
        for row in _made(view, view.trained, entry):
            seconds = _cost(view, "total_minutes", row, stage, entry, view.settings["time"])
            if seconds is not None:
                places[row] = seconds / 60, mean(map(value, view.runs(row, stage, entry))) or 0
        if not places:
            continue
        for row, place in places.items():
            drawn.add(entry, row, [place])
        if view.baseline and view.runs(view.baseline, stage, entry):
            score = mean(map(value, view.runs(view.baseline, stage, entry)))
            drawn.add(entry, BASELINE, [(0, score or 0)])
        spent = {row: view.costs(row, stage, entry, view.settings["time"]) for row in places}
        trained = {row: [[run for run in runs if run.trains] for runs in spent[row]] for row in places}
        ways = [_ways(trained[row], COST["total_minutes"][2]) for row in places]
        if any(way != ways[0] for way in ways):
            continue  # times on different hardware
        owners = {view.words.owner(row, stage, entry): row for row in places}
        repeated = [[COST["total_minutes"][0](run) for run in view.runs(row, stage, entry)] for row in owners.values()]
        factor = repeated_factor(repeated, 0.95) or 1
        front = [
            (x, y)
            for x, y in places.values()
            if not any(a <= x * factor and b >= y and (a * factor < x or b > y) for a, b in places.values())
        ]
        drawn.add(entry, FRONT, sorted(front))
    return drawn


def _score_intervals(view: View) -> Drawn:
    drawn, names, confidence = Drawn(), [], 0.95
    for entry in _shown(view, view.rows):
        found = {}
        for row in _made(view, view.rows, entry):
            number = view.number(row, entry)
            score = float(view.paired[entry].f1()[:, number].mean())
            found[row] = score, *view.paired[entry].score(number).score_interval(confidence)
        for row in found:
            drawn.add(entry, row, [(100 * each, 0) for each in found[row]])
        names += sorted(found, key=lambda row: -found[row][0])
    drawn.legend = names
    return drawn


def _group_score(view: View) -> Drawn:
    drawn, chance = Drawn(), view.settings.get("chance")
    for entry in _shown(view, view.rows):
        for row in _made(view, view.rows, entry):
            drawn.add(entry, row, [(0, mean(values) or 0) for _, values in sorted(by_group(view, row, entry).items())])
        if chance is not None:
            drawn.add(entry, "chance level", [(0, 100 * chance)] * 2)
    drawn.legend = [*_drawn_rows(view, drawn), *(["chance level"] if chance is not None else [])]
    return drawn


def _confusion(view: View) -> Drawn:
    drawn, (entry,) = Drawn(), view.stages[view.stage]
    classes = len(view.words.datasets[entry]["labels"])
    validated = {
        row: mean([VALUES["validation_f1"][1](run) for run in view.runs(row, view.stage, entry)]) for row in view.rows
    }
    best = sorted(view.rows, key=lambda row: -validated[row])[:2]
    for row in view.rows if view.settings.get("models") else best:
        counts = np.zeros((classes, classes))
        for run in view.runs(row, view.stage, entry):
            for label, prediction in _test(run)[["label", "prediction"]].to_numpy(int):
                counts[label, prediction] += 1
        percent = 100 * counts / counts.sum(axis=1, keepdims=True)
        drawn.add(row, "image", [(number, value) for number, line in enumerate(percent) for value in line])
    return drawn


def _calibration(view: View) -> Drawn:
    drawn, legend = Drawn(), []
    for entry in _shown(view, view.rows):
        for row in _made(view, view.rows, entry):
            tests = [_test(run) for run in view.runs(row, view.stage, entry)]
            parts = [_decisions(test) for test in tests]
            temperatures = [_temperature(run) for run in view.runs(row, view.stage, entry)]
            legend.append(f"{row}: {_errors(parts, [1] * len(parts))}; at T = {np.mean(temperatures):.2f}: ")
            legend[-1] += _errors(parts, temperatures)
            right = np.concatenate([probabilities.argmax(axis=1) == labels for probabilities, labels in parts])
            confidence = np.concatenate([probabilities.max(axis=1) for probabilities, _ in parts])
            points = joined(reliability(right, confidence, 10), 20 * len(parts))  # a document counts once
            drawn.add(entry, row, zip(100 * points["confidence"], 100 * points["accuracy"], strict=True))
        drawn.add(entry, "diagonal", [(0, 0), (100, 100)])
    drawn.legend = legend
    return drawn


def _errors(parts: Iterable[tuple[np.ndarray, np.ndarray]], temperatures: Iterable[float]) -> str:
    heated = [
        (np.maximum(p, LEAST) ** (1 / each), labels) for (p, labels), each in zip(parts, temperatures, strict=True)
    ]
    errors = [100 * calibration_error(p / p.sum(axis=1, keepdims=True), labels, 10) for p, labels in heated]
    return f"{np.mean(errors):.1f}" + ("" if (spread := deviation(errors)) is None else f" ± {spread:.1f}")


def _temperature(run: Made) -> float:
    """Return the temperature at which the cross-entropy of validation has no slope."""
    assert run.predictions is not None
    documents = run.predictions[run.predictions["split"] == "validation"]
    probabilities, labels = _decisions(documents)
    logits = np.log(np.maximum(probabilities, LEAST))
    own = logits[np.arange(len(labels)), labels].mean()
    slopes = [(softmax(each * logits, axis=1) * logits).sum(axis=1).mean() - own for each in (0.01, 100)]
    if slopes[0] * slopes[1] > 0:  # it is best at an end
        return 0.01 if slopes[1] < 0 else 100
    return 1 / brentq(lambda each: (softmax(each * logits, axis=1) * logits).sum(axis=1).mean() - own, 0.01, 100)


def _decisions(documents: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and classes of documents; of sets, those of each class: having it not, or having it."""
    probabilities, labels = np.stack(documents["probabilities"]), documents["label"].to_numpy()
    if labels.dtype != object:
        return probabilities, labels
    has = np.array([np.isin(range(probabilities.shape[1]), each) for each in labels])
    with_it = probabilities.ravel()
    return np.stack([np.maximum(1 - with_it, 2**-25), with_it], axis=1), has.ravel().astype(int)


def _scaling(view: View) -> Drawn:
    drawn, extrapolated = Drawn(), False
    for entry in view.stages[view.stage]:
        for curve in view.settings["curves"]:
            seeds = evaluations(view, curve, entry)
            points = sorted(point for each in seeds.values() for point in each)
            laws = [law for each in seeds.values() if (law := each.law())]
            if any(any(evaluations(view, other, entry).values()) for other in view.settings["curves"]):
                drawn.add(entry, f"{curve} evaluations", points)
            if laws:
                slope, intercept = np.mean(laws, axis=0)
                ends = points[0][0], points[-1][0], 10 * points[-1][0]
                for name, (first, last) in {"-": ends[:2], "--": ends[1:]}.items():
                    seconds = np.geomspace(first, last, 50)
                    drawn.add(entry, f"{curve} {name}", zip(seconds, np.exp(intercept) * seconds**slope, strict=True))
                extrapolated = True
    drawn.legend = [*view.settings["curves"], *(["extrapolated"] if extrapolated else [])]
    return drawn


def _search(view: View) -> Drawn:
    drawn, stage = Drawn(), view.stage
    value, variants = VALUES[view.settings.get("column", "validation_f1")][1], view.words.variants(stage)
    outer = list(variants[0])[:-2]
    for entry in _shown(view, view.rows):
        for row in _made(view, view.rows, entry):
            for variant in variants:
                titles = [entry, *([f"model: {row}"] if len(view.rows) > 1 else [])]
                titles += [f"{short(place).replace('_', ' ')}: {spelled(variant[place])}" for place in outer]
                score = mean(map(value, view.runs(row, stage, entry, variant)))
                drawn.panels.setdefault("\n".join(titles), {}).setdefault("image", []).append((0, score or 0))
    return drawn


def _trials(view: View) -> Drawn:
    drawn, ((entry,), rows) = Drawn(), (view.stages[view.stage], view.rows)
    space, legend = view.words.stages[view.stage]["tuning"]["space"], []
    for row in rows:
        for run in view.runs(row, view.stage, entry):
            assert run.trials is not None
            names = [name for name in ("complete", "pruned", "diverged") if name in set(run.trials["state"])]
            legend += [f"{name} ({row})" if len(rows) > 1 else name for name in ["best so far", *names, "best"]]
            best = run.metrics["best_trial"]
            for trial in run.trials.to_dict("records"):
                height = 0.03 if trial["state"] == "diverged" else 100 * trial["eval_f1_macro"]
                places = {"trial": trial["number"]}
                for place, dimension in space.items():
                    at = trial[place]
                    if "values" in dimension:
                        at = [spelled(each) for each in dimension["values"]].index(at)
                    places[short(place).replace("_", " ")] = at
                for title, at in places.items():
                    kinds = [trial["state"], *(["best"] if trial["number"] == best else [])]
                    for kind in kinds:
                        drawn.panels.setdefault(title, {}).setdefault(kind, []).append((float(at), height))
    drawn.legend = legend
    return drawn


def _state_size(view: View) -> Drawn:
    drawn, by = Drawn(), view.settings.get("by", "validation_accuracy")
    several = len(view.stages[view.stage]) > 1
    for entry in view.stages[view.stage]:
        for row in _made(view, view.rows, entry):
            best, _ = best_variant(view, row, entry, by)
            for group, values in by_group(view, row, entry, best).items():
                title = f"{group} {view.settings.get('label', 'distance')}"
                title = f"{entry}: {title}" if several else title
                drawn.add(title, row, [(state_kib(view, row, entry), mean(values) or 0)])
    drawn.legend = [*_drawn_rows(view, drawn), *(["chance level"] if view.settings.get("chance") is not None else [])]
    return drawn


def _geometry(view: View) -> Drawn:
    drawn, positions = Drawn(), view.settings.get("positions", [0])
    measure, random, of_weights = view.settings["measure"], "random matrices", False
    if measure not in ("symmetry", "directionality"):
        positions = [0]
    for entry in dict.fromkeys(entry for entries in view.stages.values() for entry in entries):
        stages, others = [stage for stage in view.stages if entry in view.stages[stage]], []
        for row in view.rows:
            for stage in stages:
                layers = {
                    step: geometry(view, row, entry, stage, measure, step=step, positions=positions) for step in STEPS
                }
                if points := [(step, float(np.mean(values))) for step, values in layers.items() if values]:
                    drawn.add(entry, row, points)
                if measure in ("symmetry", "directionality"):
                    others += geometry(view, row, entry, stage, measure, step=0, positions=positions, source="random")
        if others:
            of_weights = True
            drawn.add(entry, random, [(0, float(np.mean(others))), (1, float(np.mean(others)))])
    drawn.legend = [*_drawn_rows(view, drawn), *([random] if of_weights else [])]
    return drawn


def _learning_rate(view: View) -> Drawn:
    drawn = Drawn()
    for entry in _shown(view, view.rows):
        for row in view.rows:
            runs = [run for run in view.runs(row, view.stage, entry) if run.trains]
            if runs:
                drawn.add(entry, row, _rates(runs[0].config["recipe"], 20 * runs[0].epochs))
    drawn.legend = _drawn_rows(view, drawn)
    return drawn


def _rates(recipe: Mapping[str, Any], steps: int) -> Points:
    """Return the rate of every step: a line to the peak over a tenth of the steps, then a cosine."""
    warm, peak, least = math.ceil(0.1 * steps), recipe["learning_rate"], recipe["min_lr_ratio"]
    points = []
    for step in range(steps):
        share = (1 + math.cos(math.pi * (step - warm) / (steps - warm))) / 2
        points.append((step + 1, peak * (step / warm if step < warm else share * (1 - least) + least)))
    return points


FIGURES: dict[str, Callable[[View], Drawn]] = {
    "bars": _bars,
    "loss": _loss,
    "score_time": _score_time,
    "score_intervals": _score_intervals,
    "group_score": _group_score,
    "confusion": _confusion,
    "calibration": _calibration,
    "scaling": _scaling,
    "search": _search,
    "trials": _trials,
    "state_size": _state_size,
    "geometry": _geometry,
    "learning_rate": _learning_rate,
}
ONLY_HEIGHTS = {"group_score", "search", "confusion"}
"""Kinds in which the horizontal place of a point is chosen for the eye."""


def unlike(found: Drawn, expected: Drawn, kind: str) -> list[tuple[str, str, str]]:
    """Return where a figure differs: the place, what is drawn and what is expected."""
    problems = []
    titles = [list(each.panels) if kind != "search" else sorted(each.panels) for each in (found, expected)]
    if titles[0] != titles[1]:
        problems.append(("panels", str(list(found.panels)), str(list(expected.panels))))
    for title in found.panels.keys() & expected.panels.keys():
        ours, theirs = found.panels[title], expected.panels[title]
        if set(ours) != set(theirs):
            problems.append((f"panel {title}", str(sorted(ours)), str(sorted(theirs))))
        for name in ours.keys() & theirs.keys():
            if not _same_points(ours[name], theirs[name], kind):
                problems.append((f"panel {title}, {name}", str(ours[name][:6]), str(theirs[name][:6])))
    legends = [each.legend if kind != "bars" else sorted(each.legend or []) for each in (found, expected)]
    if expected.legend is not None and legends[0] != legends[1]:
        problems.append(("legend", str(found.legend), str(expected.legend)))
    return problems


def _same_points(found: Points, expected: Points, kind: str) -> bool:
    if len(found) != len(expected):
        return False
    ours, theirs = np.array(found).reshape(-1, 2), np.array(expected).reshape(-1, 2)
    if kind in ("trials", "scaling"):
        ours, theirs = (each[np.lexsort(each.T[::-1])] for each in (ours, theirs))
    columns = [1] if kind in ONLY_HEIGHTS else [0, 1]
    if kind == "score_time" and len(found) == 1 and pd.isna(ours[0, 0]):
        columns = [1]
    return bool(np.allclose(ours[:, columns], theirs[:, columns], rtol=1e-6, atol=1e-9))
