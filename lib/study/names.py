"""Check that all names in a study exist. These checks come first, since all others follow the names."""

import graphlib
from collections.abc import Collection, Iterable, Iterator

from lib.core.settings import known
from lib.preparing.generators import problems_of
from lib.preparing.settings.sources import GeneratedSource
from lib.results.settings import ResultSettings
from lib.study.experiment import Experiment
from lib.study.report import ReportSettings


def name_errors(
    experiment: Experiment, report: ReportSettings, references: Iterable[tuple[str, str, tuple[str, ...]]]
) -> Iterator[str]:
    """Yield the errors in the names of a study whose fields are valid, each with its place.

    Args:
        experiment: models, data and stages.
        report: tables, figures and analyses.
        references: what `lib.core.settings.references` finds in the study.
    """
    named = ((place, name, _entries(experiment, sections)) for place, name, sections in references)
    for place, name, there in (*named, *_within_stages(experiment), *_shown(experiment, report)):
        if name not in there:
            yield f"{place}: there is no '{name}'. {known(name, there)}"
    for check in (_stages, _mechanisms, _texts_to_train_on, _sources):
        yield from (f"experiment.{error}" for error in check(experiment))
    yield from _report(experiment, report)
    yield from _names_alike(experiment)


Use = tuple[str, str, Collection[str]]
"""Place of a name, the name, and the names that there are."""


def _entries(experiment: Experiment, sections: Iterable[str]) -> list[str]:
    return [name for section in sections for name in getattr(experiment, section)]


def _within_stages(experiment: Experiment) -> Iterator[Use]:
    """Yield the names that only some stages have: entries of their `data`."""
    stages = experiment.stages
    for name, stage in stages.items():
        before = stages.get(stage.start or "")
        for entry, work in stage.data.items():
            if work.start is not None and (before or stage.start is None):
                yield f"experiment.stages.{name}.data.{entry}.start", work.start, before.data if before else ()
    for name, model in experiment.models.items():
        for stage_name, change in model.changes.items():
            for entry in change.data if stage_name in stages else ():
                yield f"experiment.models.{name}.changes.{stage_name}.data", entry, stages[stage_name].data


def _shown(experiment: Experiment, report: ReportSettings) -> Iterator[Use]:
    """Yield the names in tables, figures and analyses, as far as these depend on each other."""
    stages = experiment.stages
    for name in report.opens_with or ():
        yield "report.opens_with", name, [*report.tables, *report.figures]
    for place, settings in report.results():
        yield from ((f"{place}.stage", stage, stages) for stage in settings.stages_passed())
        yield from ((f"{place}.time", stage, stages) for stage in settings.stages_added())
        if settings.reads == "word_vectors":
            for name in settings.vectors_named() or ():
                yield f"{place}.word_vectors", name, experiment.word_vectors
        shown = _datasets(experiment, settings)
        yield from ((f"{place}.datasets", dataset, shown) for dataset in settings.datasets or ())
        positive = getattr(settings, "positive", None)
        for dataset in settings.datasets or shown:
            if positive is not None and dataset in experiment.datasets:
                yield f"{place}.positive", positive, experiment.datasets[dataset].labels
    for name, analysis in report.analyses.items():
        if analysis.dataset is not None and analysis.stage in stages:
            yield f"report.analyses.{name}.dataset", analysis.dataset, stages[analysis.stage].data


def _datasets(experiment: Experiment, settings: ResultSettings) -> Collection[str]:
    """Return the corpora and datasets that a table or figure may show: those of its stages, if it has any."""
    if settings.reads in ("texts", "documents"):
        return experiment.datasets
    passed = [experiment.stages[stage].data for stage in settings.stages_passed() if stage in experiment.stages]
    return dict.fromkeys(entry for data in passed for entry in data) or [*experiment.corpora, *experiment.datasets]


def _stages(experiment: Experiment) -> Iterator[str]:
    needed = {name: filter(None, (each.start, each.settings_from)) for name, each in experiment.stages.items()}
    try:
        graphlib.TopologicalSorter(needed).prepare()
    except graphlib.CycleError as error:
        yield f"stages: {' needs '.join(reversed(error.args[1]))}, a circle. Take `start` or `settings_from` away"
    for name, stage in experiment.stages.items():
        source = experiment.stages.get(stage.settings_from or "")
        if source and not source.search:
            yield f"stages.{name}.settings_from: {stage.settings_from} has neither variants nor tuning. Add either"


def _mechanisms(experiment: Experiment) -> Iterator[str]:
    for name, parameters in experiment.mechanisms.items():
        if not parameters.is_called(name):
            canonical = parameters.name()
            yield f"mechanisms.{name}: the parameters spell {canonical}. Call it so, or '{canonical}-<suffix>'"
    for name, model in experiment.models.items():
        backbone = experiment.backbones.get(model.backbone)
        if backbone and backbone.needs_mechanism and model.mechanism is None and not backbone.held_mechanisms:
            there = ", ".join(experiment.mechanisms) or "none; add an entry"
            yield f"models.{name}.mechanism: missing. Its backbone {model.backbone} takes one of: {there}"
        if backbone and not backbone.takes_mechanism and model.mechanism is not None:
            yield f"models.{name}.mechanism: its backbone {model.backbone} takes none. Leave it out"


def _texts_to_train_on(experiment: Experiment) -> Iterator[str]:
    for section in ("tokenizers", "word_vectors"):
        for name, trained in getattr(experiment, section).items():
            if trained.source == "trained" and trained.corpus is None and len(experiment.corpora) != 1:
                there = ", ".join([*experiment.corpora, *experiment.datasets])
                yield f"{section}.{name}.corpus: missing. Name what it is trained on: {there}"


def _sources(experiment: Experiment) -> Iterator[str]:
    for section in ("corpora", "datasets"):
        for name, corpus in getattr(experiment, section).items():
            if isinstance(source := corpus.chosen, GeneratedSource):
                for error in problems_of(source.generator or name, source.documents, source.options):
                    yield f"{section}.{name}.generated.{error}"


def _report(experiment: Experiment, report: ReportSettings) -> Iterator[str]:
    for place, settings in report.results():
        if settings.needs_published and report.published is None:
            yield f"{place}: shows printed values, but report.published is null. Name the study that printed them"
        if settings.reads == "word_vectors" and not experiment.word_vectors:
            yield f"{place}: shows word vectors, but experiment.word_vectors has none. Add some, or take it out"
    for name, analysis in report.analyses.items():
        entries = experiment.stages[analysis.stage].data if analysis.stage in experiment.stages else {}
        if analysis.dataset is None and len(entries) > 1:
            yield f"report.analyses.{name}.dataset: missing. Name one of: {', '.join(entries)}"


def rule_name(noun: str, name: str) -> str:
    """Return the name of the rule of a table, figure or analysis; Snakemake takes no other signs."""
    return f"{noun}_{name}".replace("-", "_").replace(".", "_")


def same_names(made: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the places whose names would be one folder, file or rule, on some file systems at least.

    Args:
        made: places, each with the name of what is made for it.
    """
    first: dict[str, str] = {}
    for place, name in made:
        other = first.setdefault(name.lower(), place)
        if other != place:
            yield f"{place}: would share files called {name} with {other}. Rename one of them"


def _names_alike(experiment: Experiment) -> Iterator[str]:
    """Yield the names that would be the same folder, at least where upper and lower case are alike."""
    alone = ("tokenizers", "encoders", "word_vectors", "stages", "models")
    for sections in [("corpora", "datasets"), *((section,) for section in alone)]:
        named = [(section, name) for section in sections for name in getattr(experiment, section)]
        yield from same_names((f"experiment.{section}.{name}", name) for section, name in named)
