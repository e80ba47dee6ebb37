"""Check that runs leave what tables, figures and analyses show, and choose the models of an analysis.

Names have been checked before (`lib.study.names`), and runs can be derived (`lib.study.derivable`).
"""

from collections import Counter
from collections.abc import Iterator

from lib.analysis.settings import AnalysisSettings
from lib.results.quantities import OF_NUMBERS, quantity
from lib.results.settings import ResultSettings
from lib.study.fits import SEARCHED
from lib.study.graph import Graph
from lib.study.names import rule_name, same_names
from lib.study.report import ReportSettings
from lib.study.rows import pooled_names, results_of, rows_of, shown_entries
from lib.study.runs import as_json


def report_errors(graph: Graph, report: ReportSettings) -> Iterator[str]:
    """Yield why results of a report cannot be made from the runs of its study, each with its place."""
    yield from _files(graph, report)
    for name, analysis in report.analyses.items():
        yield from (f"report.analyses.{name}{error}" for error in _analysis(graph, analysis))
    for place, settings in report.results():
        if settings.reads == "documents":
            yield from (f"{place}{error}" for error in _documents(graph, settings))
        elif settings.reads == "runs":
            for check in (_models, _reference, _differences, _searches, _runs, _scores, _folds):
                yield from (f"{place}{error}" for error in check(graph, report, settings))


def not_kept(report: ReportSettings, runs: str) -> Iterator[str]:
    """Yield the results that need files which `imported` or `archived` runs do not have."""
    for place, settings in report.results() if runs == "imported" else ():
        needs = {
            "predictions": settings.needs_predictions,
            "geometry": settings.needs_geometry,
            "trials": settings.takes_tuning == "needed",
        }
        for name in (name for name, needed in needs.items() if needed):
            yield f"{place}: needs {name}, which imported runs do not leave. Take it out (null)"
    for name in report.analyses:
        yield f"report.analyses.{name}: needs models, which {runs} runs do not leave. Take it out (null)"


# Analyses

UNLIKE = ("number", "set")
"""Forms of labels that no analysis compares with a prediction."""


def analysed_dataset(graph: Graph, analysis: AnalysisSettings) -> str:
    """Return the entry of the stage's `data` that an analysis reads: the one it names, or the only one."""
    return analysis.dataset or next(iter(graph.experiment.stages[analysis.stage].data))


def analysed_models(graph: Graph, analysis: AnalysisSettings) -> list[str]:
    """Return the models of an analysis, in order: those that it names, or all that can be analysed."""
    return analysis.models or [each for each in _passing(graph, analysis) if not _not_analysed(graph, analysis, each)]


def text_baselines(graph: Graph, analysis: AnalysisSettings) -> list[str]:
    """Return the models at the stage that can be the text baseline of an analysis.

    One that reads only a part of each text cannot: without some words, that part has others.
    """
    passing, dataset = _passing(graph, analysis), analysed_dataset(graph, analysis)
    backbones = {model: graph.backbone_at(model, analysis.stage, dataset) for model in passing}
    kind = analysis.text_baseline
    return [model for model, each in backbones.items() if each.kind == kind and getattr(each, "part", None) is None]


def _passing(graph: Graph, analysis: AnalysisSettings) -> list[str]:
    """Return the models with runs at the place of an analysis."""
    return [model for model, *place in graph.places if place == [analysis.stage, analysed_dataset(graph, analysis)]]


def _not_analysed(graph: Graph, analysis: AnalysisSettings, model: str) -> str | None:
    """Return why a model cannot be analysed, as the end of a sentence; None = it can."""
    place = model, analysis.stage, analysed_dataset(graph, analysis)
    if not graph.has_runs(*place):
        return f"has no run at {analysis.stage} on {place[-1]}"
    backbone, work = graph.backbone_at(*place), graph.work(*place)
    reach, needed = backbone.longest(), analysis.tokens_needed
    if analysis.needs not in backbone.abilities:
        return f"has a backbone of kind {backbone.kind}, which gives no {analysis.needs.replace('_', ' ')}"
    if analysis.needs_single_tokens and not backbone.per_token:
        return f"has a backbone of kind {backbone.kind}, which gives no states of single tokens"
    if not graph.trains(*place):
        return f"does not train at {analysis.stage}, which therefore leaves no model of it"
    if analysis.needs_task and work.task.kind not in analysis.needs_task:
        return f"learns {work.task.kind} at {analysis.stage}, but the analysis needs {' or '.join(analysis.needs_task)}"
    if work.no_model_reason:
        return f"cannot be analysed, since {analysis.stage} {work.no_model_reason}"
    if reach is not None and needed is not None and needed > reach:
        return f"reads {reach} tokens at most, but length = {needed}"
    return None


def _analysis(graph: Graph, analysis: AnalysisSettings) -> Iterator[str]:
    stage, dataset = analysis.stage, analysed_dataset(graph, analysis)
    section = graph.experiment.datasets.get(dataset)
    if search := graph.experiment.stages[stage].search:
        yield f".stage: {stage} has {search}, {SEARCHED[search]}. Name another stage"
    if section and section.texts != "single":
        yield f".dataset: documents of {dataset} are pairs of texts, which no analysis reads. Name another"
    elif analysis.needs_labels and not (section and section.label_form not in UNLIKE and section.split.test_labels):
        yield f".dataset: test documents of {dataset} have no classes, which it compares. Name another"
    asked = analysis.models or _passing(graph, analysis)
    reasons = [f"{model} {reason}" for model in asked if (reason := _not_analysed(graph, analysis, model))]
    if analysis.models:
        yield from (f".models: {reason}. Leave it out" for reason in reasons)
    elif len(reasons) == len(asked):
        yield f": no model can be analysed: {'; '.join(reasons) or 'none has runs at the stage'}. Take it out"


def _files(graph: Graph, report: ReportSettings) -> Iterator[str]:
    """Yield the results whose files or rules would be called like others, as `f1_imdb` and the file of `f1` on imdb."""
    for section in ("tables", "figures"):
        made = [
            (f"report.{section}.{entry}" + (f" on {dataset}" if dataset else ""), name)
            for entry, settings in getattr(report, section).items()
            for name, dataset in results_of(graph, entry, settings).items()
        ]
        made += [(f"report.analyses.{name}", name) for name in report.analyses]
        yield from same_names((place, rule_name("result", name)) for place, name in made)


# Checks of one table or figure: their errors begin with the setting below it


def _documents(graph: Graph, settings: ResultSettings) -> Iterator[str]:
    for name in settings.datasets or graph.experiment.datasets:
        dataset = graph.experiment.datasets[name]
        has_classes = dataset.label_form == "class" and dataset.split.test_labels
        if dataset.texts != "single" or not has_classes:
            yield f": shows single texts of test by their classes, which {name} lacks. Name other datasets"


def _models(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    stages = settings.stages_passed() or settings.stages_added()
    compared = [model for _, *sides in settings.compared() for side in sides for model in side]
    rows = rows_of(graph, settings)
    for model in dict.fromkeys([*(settings.models or ()), *compared]):
        if model not in rows.row_of:
            on = list(dict.fromkeys(entry for stage in stages for entry in rows.stages[stage]))
            yield f".models: {model} has no run at {' and '.join(stages)} on {', '.join(on)}. Leave it out"
    without = rows.row_of.get(report.baseline or "") if settings.leaves_out_baseline else None
    if stages and not set(rows.shown) - {without}:
        besides = f", besides report.baseline = {report.baseline}" if without else ""
        yield f".stage: no model that it shows passes {' and '.join(stages)}{besides}. Name others"


def _reference(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    reference = report.reference
    if "reference" not in settings.compares_with or settings.models_compared():
        return  # pairs that are named need no reference
    if reference is None:
        yield ": compares models, but report.reference is null. Name the model to compare with there"
        return
    stages = [*settings.stages_passed(), *(each for each in settings.stages_added() if graph.has_runs(reference, each))]
    for stage in stages:
        shown = shown_entries(graph, settings, stage)
        if missing := [entry for entry in shown if not graph.has_runs(reference, stage, entry)]:
            yield f": compares models with {reference}, without a run at {stage} on {', '.join(missing)}. Name others"


def _differences(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    """Check that some of the models that are compared have different runs."""
    if not settings.needs_another and not settings.needs_lead:
        return
    rows = rows_of(graph, settings)
    pairs: list[tuple[str | None, str | None]] = [(one, other) for _, (one,), (other,) in settings.compared()]
    named: list[tuple[str | None, str | None]] = [
        (row, getattr(report, each)) for row in rows.shown for each in settings.compares_with
    ]
    pairs = pairs or ([(report.reference, report.baseline)] if settings.needs_lead else named)
    owners = [(rows.owners.get(one, {}), rows.owners.get(other, {})) for one, other in pairs if one and other]
    differ = any(
        owner != made[stage].get(entry, owner)
        for made, others in owners
        for stage in made
        for entry, owner in others.get(stage, {}).items()
    )
    if owners and not differ:
        yield ": compares no models with different runs on the same dataset. Name others, or take this out"


def _searches(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    for stage in dict.fromkeys([*settings.stages_passed(), *settings.stages_added()]):
        section = graph.experiment.stages[stage]
        taken = ("variants", settings.takes_variants, "search"), ("tuning", settings.takes_tuning, "trials")
        for search, takes, kind in taken:
            if takes == "needed" and not getattr(section, search):
                yield f".stage: {stage} has no {search}. Name a stage that has"
            elif takes == "none" and getattr(section, search):
                yield f".stage: {stage} has {search}, which the kind {settings.kind} would mix. Choose the kind {kind}"


def _folds(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    """Check that folds are pooled that have the same settings, models and seeds, and are all."""
    if not settings.pools:
        return
    (stage,), datasets = settings.stages_passed(), graph.experiment.datasets
    entries, names = shown_entries(graph, settings, stage), pooled_names(graph, settings)
    if not any(each in names for each in entries):
        yield f".pooled: joins folds, but {', '.join(entries)} have none that are drawn (split.folds: 5). Leave it out"
    rows = rows_of(graph, settings)
    named = [each for each in (*rows.shown, report.reference, report.baseline) if each and each in rows.owners]
    for name in dict.fromkeys(names[each] for each in entries if each in names):
        folds = [each for each in entries if names.get(each) == name]
        splits = [datasets[each].model_dump(mode="json", exclude={"split": {"fold"}}) for each in folds]
        runs = [[rows.owners[row][stage].get(each) for row in named] + graph.seeds_of(stage, each) for each in folds]
        alike = set(map(as_json, zip(splits, runs, strict=True)))
        if len(alike) > 1 or len(folds) < datasets[folds[0]].split.drawn_folds:
            differ = "which are not all folds, or differ in settings, models or seeds"
            yield f".pooled: joins {', '.join(folds)} as {name}, {differ}. Show all alike, or leave it out"


SOME = ("a training", "geometry")
"""What all runs that are shown may lack but one, unless their models are named."""


def _lacks(graph: Graph, settings: ResultSettings, model: str, stage: str, entry: str) -> list[str]:
    """Return what a run lacks that a table or figure shows."""
    task, dataset = graph.work(model, stage, entry).task, graph.experiment.datasets.get(entry)
    predictions, form = settings.needs_predictions, task.label_form
    needs = {
        "a training": settings.needs_training and not graph.trains(model, stage, entry),
        "geometry": settings.needs_geometry and not graph.measures(model, stage, entry),
        "predictions": predictions and not task.predicts,
        "classes": predictions and (form == "number" or (settings.needs_classes and form == "span")),
        "one class per document": predictions and form == "set" and not settings.takes_sets,
        "probabilities": settings.needs_probabilities and form not in ("class", "set"),
        f"labels of {entry} on test (datasets.{entry}.split.test_labels)": predictions
        and dataset
        and not dataset.split.test_labels,
        f"groups of {entry} (datasets.{entry}.group)": settings.needs_groups and dataset and dataset.group is None,
        "how much of a text models keep": settings.needs_state
        and graph.backbone_at(model, stage, entry).state_numbers(1) is None,
    }
    return [reason for reason, lacking in needs.items() if lacking]


def _runs(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    added = settings.stages_added() if settings.needs_geometry else []
    rows = rows_of(graph, settings)
    for row in rows.shown if len(added) > 1 else ():
        entries = Counter(entry for of_stage in rows.owners[row].values() for entry in of_stage)
        if twice := [entry for entry, count in entries.items() if count > 1]:
            yield f".stage: {row} has runs at several on {', '.join(twice)}, but a line is of one stage. Name one"
    for stage in [*settings.stages_passed(), *added]:
        shown = [
            (model, entry)
            for model, at, entry in graph.places
            if at == stage
            and model in (settings.models or graph.experiment.models)
            and entry in shown_entries(graph, settings, stage)
        ]
        lacking: dict[str, list[str]] = {}
        for model, entry in shown:
            for reason in _lacks(graph, settings, model, stage, entry):
                lacking.setdefault(reason, []).append(model)
        for reason, models in lacking.items():
            if settings.models or reason not in SOME or len(models) == len(shown):
                names = ", ".join(dict.fromkeys(models))
                yield f".stage: shows {reason}, which runs of {names} at {stage} lack. Leave it out, or name others"


def _scores(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    for stage in settings.stages_passed():
        for entry in shown_entries(graph, settings, stage):
            task, dataset = graph.experiment.stages[stage].data[entry].task, graph.experiment.datasets.get(entry)
            if dataset is None or not task.labelled:
                continue
            for column in settings.columns_shown(stage):
                split, _, metric = quantity(column).source.partition("_")
                if split not in ("eval", "test"):
                    continue
                if metric != "loss" and (metric in OF_NUMBERS) != (task.label_form == "number"):
                    predicted = "numbers" if task.label_form == "number" else "classes"
                    yield f": {column} is no score of {task.kind}, the task of {stage} on {entry}, with its {predicted}"
                elif split == "test" and not dataset.split.test_labels:
                    yield f": {column} is a score on test, but datasets.{entry}.split.test_labels is false. Name others"
