"""Check that runs leave what tables, figures and analyses show, and choose the models of an analysis.

Names have been checked before (`lib.study.names`), and runs can be derived (`lib.study.relations`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lib.analysis.settings import AnalysisSettings
from lib.core.search_space import short_name
from lib.results.quantities import OF_NUMBERS, quantity
from lib.results.settings import ColumnNames, ResultSettings, TableSettings
from lib.study.graph import Graph
from lib.study.names import rule_name
from lib.study.relations.searches import SEARCHED
from lib.study.report import ReportSettings
from lib.study.rows import divided, results_of, rows_of, shown_entries


def report_errors(graph: Graph, report: ReportSettings) -> Iterator[str]:
    """Yield why results of a report cannot be made from the runs of its study, each with its place."""
    yield from _analyses(graph, report)
    yield from _files(graph, report)
    for place, settings in report.results():
        for relation in (
            _models,
            _comparisons,
            _differences,
            _costs,
            _columns,
            _own_rows,
            _baseline,
            _printed_values,
            _reference,
            _training,
            _geometry,
            _state,
            _searches,
            _scores,
            _predictions,
            _documents,
        ):
            yield from (f"{place}{error}" for error in relation(graph, report, settings))


def analysed_dataset(graph: Graph, analysis: AnalysisSettings) -> str:
    """Return the entry of the stage's `data` that an analysis reads: the one it names, or the only one."""
    return analysis.dataset or next(iter(graph.experiment.stages[analysis.stage].data))


def analysed_models(graph: Graph, analysis: AnalysisSettings) -> list[str]:
    """Return the models of an analysis, in order: those that it names, or all that can be analysed."""
    place = (analysis.stage, analysed_dataset(graph, analysis))
    passing = [model for model, *where in graph.places if tuple(where) == place]
    return analysis.models or [model for model in passing if _reason_against(graph, analysis, model) is None]


def text_baseline(graph: Graph, analysis: AnalysisSettings) -> str | None:
    """Return the first model at the stage that is the text baseline of an analysis; None = there is none.

    One that reads only a part of each text is none: without some words, that part has others.
    """
    place = (analysis.stage, analysed_dataset(graph, analysis))
    passing = [model for model, *where in graph.places if tuple(where) == place]
    backbones = {model: graph.backbone_at(model, *place) for model in passing}
    reading = (model for model, backbone in backbones.items() if getattr(backbone, "part", None) is None)
    return next((model for model in reading if backbones[model].kind == analysis.text_baseline), None)


def _reason_against(graph: Graph, analysis: AnalysisSettings, model: str) -> str | None:
    """Return why a model with runs at the stage cannot be analysed; None = it can."""
    stage, dataset = analysis.stage, analysed_dataset(graph, analysis)
    backbone = graph.backbone_at(model, stage, dataset)
    reach = backbone.longest()
    if analysis.needs not in backbone.abilities:
        return f"{model} has a backbone of kind {backbone.kind}, which gives no {analysis.needs.replace('_', ' ')}"
    if analysis.needs_single_tokens and not backbone.per_token:
        return f"{model} has a backbone of kind {backbone.kind}, which gives no states of single tokens"
    if not graph.trains(model, stage, dataset):
        return f"{model} does not train at {stage}, which therefore leaves no model of it"
    if analysis.needs_task not in (None, task := graph.work(model, stage, dataset).task.kind):
        return f"{model} learns {task} at {stage}, but the analysis needs {analysis.needs_task}"
    if reason := graph.work(model, stage, dataset).no_model_reason:
        return f"{model} cannot be analysed, since {stage} {reason}"
    if reach is not None and analysis.tokens_needed is not None and analysis.tokens_needed > reach:
        return f"{model} reads {reach} tokens at most, but length = {analysis.tokens_needed}"
    return None


def _analyses(graph: Graph, report: ReportSettings) -> Iterator[str]:
    for name, analysis in report.analyses.items():
        place, stage = f"report.analyses.{name}", analysis.stage
        asked, dataset = analysis.models or list(graph.experiment.models), analysed_dataset(graph, analysis)
        passing = [model for model in asked if graph.has_runs(model, stage, dataset)]
        if analysis.models:
            for model in asked:
                if model not in passing:
                    yield f"{place}.models: {model} {_skips(graph, model, {stage: [dataset]})}. Leave it out"
        if search := graph.experiment.stages[stage].search:
            yield f"{place}.stage: {stage} has {search}, {SEARCHED[search]}. Name another stage"
        if analysis.needs_labels and dataset in graph.experiment.corpora:
            yield f"{place}.dataset: {dataset} has no labels, which the comparison of states needs. Name a dataset"
        if (section := graph.experiment.datasets.get(dataset)) and section.texts != "single":
            yield f"{place}.dataset: documents of {dataset} are pairs of texts, which no analysis reads. Name another"
        elif section and analysis.needs_labels and (section.label_range or not section.split.test_labels):
            yield f"{place}.dataset: test documents of {dataset} have no classes, which it compares. Name another"
        reasons = [text for model in passing if (text := _reason_against(graph, analysis, model))]
        if analysis.models:
            yield from (f"{place}.models: {reason}. Leave it out" for reason in reasons)
        elif len(reasons) == len(passing):
            listed = "; ".join(reasons) or "none has runs at the stage"
            yield f"{place}: no model can be analysed: {listed}. Take it out"


def not_kept(report: ReportSettings, runs: str) -> Iterator[str]:
    """Yield the results that need files which `imported` or `archived` runs do not have."""
    for place, settings in report.results():
        for needed, name in (
            (settings.needs_predictions, "predictions"),
            (settings.needs_geometry, "geometry"),
            (settings.takes_tuning == "needed", "trials"),
        ):
            if needed and runs == "imported":
                yield f"{place}: needs {name}, which imported runs do not leave. Take it out (null)"
    for name in report.analyses:
        yield f"report.analyses.{name}: needs models, which {runs} runs do not leave. Take it out (null)"


def sharing_errors(graph: Graph, processes: int) -> Iterator[str]:
    """Yield the trainings of a study that this number of processes cannot share."""
    experiment = graph.experiment
    sizes = [
        (f"stages.{name}.data.{entry}.recipe.batch_size", work.recipe.batch_size)
        for name, stage in experiment.stages.items()
        for entry, work in stage.data.items()
        if work.recipe
    ]
    for model, stage in graph.model_stages:
        if graph.changed_work(model, stage):
            sizes += [
                (f"models.{model}.changes.{stage}.recipe.batch_size", work.recipe.batch_size)
                for work in graph.works(model, stage).values()
                if work.recipe
            ]
    for name, section in experiment.stages.items():
        varied = section.variants.get("recipe.batch_size", [])
        sizes += [(f"stages.{name}.variants.recipe.batch_size", size) for size in varied if isinstance(size, int)]
    for place, size in sizes:
        if size < processes:
            yield (
                f"execution.gpus_per_run: {processes} processes cannot share the {size} documents of "
                f"experiment.{place}. Lower it, or raise the batch size"
            )


def _files(graph: Graph, report: ReportSettings) -> Iterator[str]:
    """Yield the results whose files or rules would be named like those of another, as `f1_imdb` of `f1` on imdb."""
    for section in ("tables", "figures"):
        first: dict[str, str] = {}
        made = [
            (f"report.{section}.{entry}" + (f" on {dataset}" if dataset else ""), name)
            for entry, settings in getattr(report, section).items()
            for name, dataset in results_of(graph, entry, settings).items()
        ]
        for place, name in [*made, *((f"report.analyses.{name}", name) for name in report.analyses)]:
            other = first.setdefault(rule_name("result", name).lower(), place)
            if other != place:
                yield f"{place}: makes {section} called {name}, a name of those of {other}. Rename one of them"


# Checks of one table or figure: their errors begin with the setting below it


def _skips(graph: Graph, model: str, entries: Mapping[str, Sequence[str]]) -> str:
    """Return why a model has no runs at stages on any of those entries, as a sentence without its subject."""
    made_for = graph.experiment.models[model].datasets or []
    if skipped := [stage for stage in entries if not graph.has_runs(model, stage)]:
        return f"skips {', '.join(skipped)}"
    names = dict.fromkeys(name for of_stage in entries.values() for name in of_stage)
    return f"has no run on {', '.join(names)} (its datasets: {', '.join(made_for)})"


def _models(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    entries = {stage: shown_entries(graph, settings, stage) for stage in graph.experiment.stages}

    def has_runs(model: str, stage: str) -> bool:
        return any(graph.has_runs(model, stage, entry) for entry in entries[stage])

    models, stages, added = graph.experiment.models, settings.stages_passed(), settings.stages_added()
    skipped = {name: [stage for stage in stages if not has_runs(name, stage)] for name in models}
    if not stages:  # then a model has runs at one of the others, at least
        stages = added
        skipped = {name: [] if any(has_runs(name, stage) for stage in added) else added for name in models}
    for model in settings.models or []:
        if skipped[model]:
            missing = {stage: entries[stage] for stage in skipped[model]}
            yield f".models: {model} {_skips(graph, model, missing)}. Leave it out"
    if stages and not settings.models and all(skipped.values()):
        if all(set(stages) & set(model.skip) for model in models.values()):
            yield (
                f".stage: every model skips {' and '.join(stages)} (experiment.models.<name>.skip). Take the stages "
                "out of a model's skip, or name others"
            )
        else:
            yield f".stage: no model passes {' and '.join(stages)}. Name others"


def _comparisons(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    rows = rows_of(graph, settings) if settings.reads == "runs" else None
    for place, *sides in settings.compared():
        assert rows is not None  # only runs are compared
        if missing := [model for side in sides for model in side if model not in rows.row_of]:
            yield f".{place}: {', '.join(missing)} passes no stage that is shown. Name another model"
        elif len({frozenset(rows.row_of[model] for model in side) for side in sides}) == 1:
            one, other = (" and ".join(side) for side in sides)
            yield f".{place}: the runs of {one} are those of {other}, so there is no difference. Name another model"


def _differences(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    if not settings.needs_another:
        return
    rows = rows_of(graph, settings)
    against = [name for each in settings.compares_with if (name := getattr(report, each)) in rows.row_of]
    pairs = [(one, other) for _, (one,), (other,) in settings.compared()]
    pairs = pairs or [(row, other) for row in rows.shown for other in against]
    if pairs and all(
        made.get(entry, owner) == owner
        for one, other in pairs
        for stage, made in rows.owners.get(one, {}).items()
        for entry, owner in rows.owners.get(other, {}).get(stage, {}).items()
    ):
        yield (
            f": no model has other runs than {' and '.join(dict.fromkeys(other for _, other in pairs))} on the "
            "same dataset, so there is nothing to compare. Name others, or take this out"
        )


def _costs(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    if not settings.adds_costs:
        return
    rows = rows_of(graph, settings)
    for stage in settings.stages_added():
        counted = any(
            stage in graph.origins(row, passed, dataset) or dataset in rows.owners[row].get(stage, ())
            for row in rows.shown
            for passed in settings.stages_passed()
            for dataset in rows.owners[row][passed]
        )
        if rows.shown and not counted:
            passed = " and ".join(settings.stages_passed())
            yield (
                f".time: {stage} adds nothing, since no run of {passed} that is shown starts from it, and it does not "
                "work on the same datasets. Leave it out"
            )


def _columns(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    if settings.reads != "runs" or not isinstance(settings, TableSettings):
        return
    stages = [*settings.stages_passed(), *settings.stages_added()]
    each = [rows_of(graph, settings)]
    if settings.divided != "never":
        each = list(divided(graph, settings).values())
    for rows in each:
        against = [rows.row_of.get(name) for name in (report.reference, report.baseline) if name]
        datasets = {name: graph.experiment.datasets.get(name) for names in rows.stages.values() for name in names}
        names = ColumnNames(
            stages=rows.stages,
            rows=rows.shown,
            against=[name for name in against if name],
            searched=[short_name(place) for stage in stages for place in graph.experiment.stages[stage].variants],
            groups=[dataset.group for dataset in datasets.values() if dataset and dataset.group],
        )
        counts = Counter(map(str, dict.fromkeys(settings.columns_made(names))))
        if twice := [name for name, count in counts.items() if count > 1]:
            yield (
                f": would have two columns called {', '.join(twice)} (_sd is a standard deviation). Rename one of the "
                "stages, datasets or models, or show them in different tables"
            )


def _baseline(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    if not settings.leaves_out_baseline or report.baseline is None:
        return
    rows = rows_of(graph, settings)
    if rows.shown and set(rows.shown) == {rows.row_of.get(report.baseline)}:
        yield (
            f".models: shows only {report.baseline}, which is report.baseline and has no row in the kind "
            f"{settings.kind}. Name other models"
        )


def _own_rows(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    if not settings.own_rows:
        return
    rows = rows_of(graph, settings)
    shown = {
        "models": rows.shown,
        "datasets": [name for stage in settings.stages_passed() for name in rows.stages[stage]],
    }
    for kind, name in settings.own_rows.items():
        if name in shown[kind]:
            yield f": makes a row called '{name}', and so is one of the {kind} that it shows. Rename that one"


def _printed_values(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    if settings.needs_published and report.published is None:
        yield ": shows printed values, but report.published is null. Name the study that printed them"


def _reference(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    reference = report.reference
    if "reference" not in settings.compares_with or settings.models_compared():
        return  # pairs that are named need no reference
    if reference is None:
        yield ": compares models, but report.reference is null. Name the model to compare with there"
    elif skipped := [stage for stage in settings.stages_passed() if not graph.has_runs(reference, stage)]:
        yield f": compares models with {reference}, which skips {', '.join(skipped)}. Name other stages"
    else:
        for stage in [*settings.stages_passed(), *settings.stages_added()]:
            for entry in shown_entries(graph, settings, stage) if graph.has_runs(reference, stage) else ():
                if not graph.has_runs(reference, stage, entry):
                    yield (
                        f": compares models with {reference} on {entry}, which its datasets leave out. Name other "
                        "datasets here, or add it to them"
                    )
        row_of = rows_of(graph, settings).row_of
        if settings.needs_lead and row_of.get(reference) == row_of.get(report.baseline or ""):
            yield (
                f": asks that {reference} is above report.baseline, which has the same runs. Name another reference or "
                "baseline, or set report.baseline to null"
            )


def _training(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    experiment = graph.experiment
    for stage in settings.stages_passed() if settings.needs_training else []:
        models = [each for each in settings.models or experiment.models if graph.has_runs(each, stage)]
        still = [
            each for each in models if not any(graph.trains(each, stage, entry) for entry in graph.entries(each, stage))
        ]
        if settings.models:
            for model in still:
                yield f".models: {model} does not train at {stage}. Leave it out"
        elif models and still == models:
            yield f".stage: no model trains at {stage}. Name another stage"


def _geometry(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    experiment = graph.experiment
    if settings.needs_geometry and len(settings.stages_added()) > 1:
        for row in (rows := rows_of(graph, settings)).shown:
            counts = Counter(entry for entries in rows.owners[row].values() for entry in entries)
            for entry in [entry for entry, count in counts.items() if count > 1]:
                yield f".stage: {row} trains at several of them on {entry}, but a line is of one stage. Name one"
    for stage in [*settings.stages_passed(), *settings.stages_added()] if settings.needs_geometry else []:
        if experiment.stages[stage].geometry is None:
            yield f": shows geometry, but stages.{stage}.geometry is null. Set it, or take this out"
            continue
        for model in [each for each in settings.models or experiment.models if graph.has_runs(each, stage)]:
            for backbone in [graph.backbone_at(model, stage, entry) for entry in graph.entries(model, stage)]:
                if "states" in backbone.abilities and "queries_and_keys" not in backbone.abilities:
                    yield (
                        f".models: {model} has a backbone of kind {backbone.kind}, which has no separate queries "
                        "and keys to measure. Name the other models"
                    )


def _state(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    for stage in settings.stages_passed() if settings.needs_state else []:
        for model in [each for each in settings.models or graph.experiment.models if graph.has_runs(each, stage)]:
            for backbone in [graph.backbone_at(model, stage, entry) for entry in graph.entries(model, stage)]:
                if backbone.state_numbers(1) is None:
                    yield (
                        f".models: shows how much of a text models keep, but the backbone of {model}, of kind "
                        f"{backbone.kind}, does not say it. Name the other models, or give its parameters a method "
                        "`state_numbers`"
                    )


def _searches(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    added = "time" if "time" in type(settings).model_fields else "stage"
    named = dict.fromkeys(settings.stages_added(), added) | dict.fromkeys(settings.stages_passed(), "stage")
    for stage, setting in named.items():
        section = graph.experiment.stages[stage]
        if not section.variants and settings.takes_variants == "needed":
            yield f".{setting}: {stage} has no variants. Name a stage that has"
        if section.variants and settings.takes_variants == "none":
            yield (
                f".{setting}: {stage} has variants, which the kind {settings.kind} would mix. "
                "Name another stage, or choose the kind search"
            )
        if not section.tuning and settings.takes_tuning == "needed":
            yield f".{setting}: {stage} has no tuning. Name a stage that has"
        if section.tuning and settings.takes_tuning == "none":
            yield (
                f".{setting}: {stage} has tuning, which leaves trials that the kind {settings.kind} does "
                "not show. Name another stage, or choose the kind trials"
            )


def _scores(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    datasets = graph.experiment.datasets
    for stage in [*settings.stages_passed(), *settings.stages_added()]:
        shown = {}
        for column in settings.columns_shown(stage) if stage in settings.stages_passed() else []:
            split, _, metric = quantity(column).source.partition("_")
            if split in ("eval", "test"):
                shown[column] = split, metric
        for entry in shown_entries(graph, settings, stage) if shown else ():
            task = graph.experiment.stages[stage].data[entry].task
            if not task.labelled or entry not in datasets:
                continue
            for column, (split, metric) in shown.items():
                if metric != "loss" and (metric in OF_NUMBERS) != task.numbers:
                    kind, asked = ("numbers", "classes") if task.numbers else ("classes", "numbers")
                    yield (
                        f": {column} is a score of {asked}, but {task.kind}, the task of {stage} on {entry}, predicts "
                        f"{kind}. Name other columns, or other datasets"
                    )
                elif split == "test" and not datasets[entry].split.test_labels:
                    yield (
                        f": {column} is a score on test, but datasets.{entry}.split.test_labels is false. Name a score "
                        "on validation (validation_f1, ...), or other datasets"
                    )


def _documents(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    datasets = graph.experiment.datasets
    for name in (settings.datasets or datasets) if settings.reads == "documents" else ():
        dataset = datasets.get(name)
        if dataset and (
            dataset.texts != "single"
            or dataset.label_per != "document"
            or dataset.label_range is not None
            or not dataset.split.test_labels
        ):
            yield f": shows single texts of test by their classes, which {name} lacks. Name other datasets"


def _predictions(graph: Graph, report: ReportSettings, settings: ResultSettings) -> Iterator[str]:
    datasets = graph.experiment.datasets
    asked = settings.stages_passed() if settings.needs_predictions else []
    for model, stage in graph.model_stages:
        if stage not in asked or model not in (settings.models or graph.experiment.models):
            continue
        for entry, work in graph.works(model, stage).items():
            if entry not in shown_entries(graph, settings, stage):
                continue
            task = f"{work.task.kind}, the task of {stage},"
            if not work.task.predicts:
                yield f": {task} leaves no predictions. Leave it out"
            elif settings.needs_classes and work.task.label_per == "span":
                yield f": {task} predicts no classes. Leave it out"
            elif work.task.numbers:
                yield f": {task} predicts numbers, no classes. Leave it out, or name other datasets"
            elif entry in datasets and not datasets[entry].split.test_labels:
                yield (
                    f": compares predictions with labels on test, but datasets.{entry}.split.test_labels is false. "
                    "Leave it out, or name other datasets"
                )
            elif settings.needs_probabilities and work.task.label_per != "document":
                yield f": {task} leaves no probabilities. Leave it out"
            elif settings.needs_groups and entry in datasets and datasets[entry].group is None:
                yield (
                    f": shows scores by group, but datasets.{entry}.group is null. Name the column of its groups "
                    "there, or leave this out"
                )
