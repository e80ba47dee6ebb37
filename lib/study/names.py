"""Check that all names in a study exist. These checks come first, since all others follow the names."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lib.core.weights import WordVectorsStart
from lib.preparing.generators import problems_of
from lib.preparing.settings.dataset import Dataset
from lib.preparing.settings.sources import GeneratedSource, RemoteFile
from lib.study.experiment import Experiment
from lib.study.report import ReportSettings
from lib.study.stages import Model, Override, Stage

MEASURED = {
    "tables": (
        *("attention_cost", "training_cost", "encoder_cost", "adaptation_cost", "sequence_cost", "memory_cost"),
        *("attention_cost_kept", "favor_error", "lsh_recall"),
    ),
    "figures": (
        *("attention_time", "attention_memory", "sequence_time", "memory_length"),
        *("favor_error", "lsh_recall"),
    ),
}
"""Names of the tables and figures that `make bench` writes to the same folders as those of a study."""


def name_errors(experiment: Experiment, report: ReportSettings) -> Iterator[str]:
    """Yield the errors in the names of a study whose fields are valid, each with its place."""
    for error in _of_experiment(experiment):
        yield f"experiment.{error}"
    yield from _of_report(experiment, report)
    yield from _names_alike(experiment, report)


def _of_experiment(experiment: Experiment) -> Iterator[str]:
    checks = (
        _corpora,
        _addresses,
        _mechanisms,
        _stages,
        _circles,
        _searches,
        _models,
        _mechanisms_of_models,
        _tokenizers,
        _word_vectors,
    )
    for check in checks:
        yield from check(experiment)


def _corpora(experiment: Experiment) -> Iterator[str]:
    for name in sorted(set(experiment.corpora) & set(experiment.datasets)):
        yield f"'{name}' is both a corpus and a dataset. Rename one of them"
    sections: dict[str, Mapping[str, Any]] = {"corpora": experiment.corpora, "datasets": experiment.datasets}
    for section, corpora in sections.items():
        for name, corpus in corpora.items():
            if isinstance(source := corpus.chosen, GeneratedSource):
                for error in problems_of(source.generator or name, source.documents, source.options):
                    yield f"{section}.{name}.generated.{error}"
            if isinstance(corpus, Dataset) and corpus.placement and corpus.placement.corpus not in experiment.corpora:
                wanted = corpus.placement.corpus
                yield f"{section}.{name}.placement.corpus: there is no '{wanted}'. {known(experiment.corpora)}"
            if corpus.tokenizer is not None and corpus.tokenizer not in experiment.tokenizers:
                yield f"{section}.{name}.tokenizer: there is no '{corpus.tokenizer}'. {known(experiment.tokenizers)}"


def _addresses(experiment: Experiment) -> Iterator[str]:
    """Yield the URLs that are given twice with different sizes or checksums."""
    first: dict[str, tuple[str, RemoteFile]] = {}
    sections: dict[str, Mapping[str, Any]] = {"corpora": experiment.corpora, "datasets": experiment.datasets}
    for section, corpora in sections.items():
        for name, corpus in corpora.items():
            for file in corpus.remote_files:
                place, other = first.setdefault(file.url, (f"experiment.{section}.{name}", file))
                if (file.size, file.sha256) != (other.size, other.sha256):
                    yield (
                        f"{section}.{name}: {file.url} is also in {place}, with another size or sha256. "
                        "Give it the same ones at both places"
                    )


def _mechanisms(experiment: Experiment) -> Iterator[str]:
    for name, parameters in experiment.mechanisms.items():
        canonical = parameters.name()
        if name != canonical and not name.startswith(f"{canonical}-"):
            yield (
                f"mechanisms.{name}: the name contradicts the parameters, which spell {canonical}. "
                f"Call it '{canonical}' or '{canonical}-<suffix>', or change the parameters"
            )


def _stages(experiment: Experiment) -> Iterator[str]:
    for name, stage in experiment.stages.items():
        if stage.start is not None and stage.start not in experiment.stages:
            yield f"stages.{name}.start: '{stage.start}' is not a stage. {known(experiment.stages)}"
        for model in stage.models or []:
            if model not in experiment.models:
                yield f"stages.{name}.models: there is no '{model}'. {known(experiment.models)}"
            elif name in experiment.models[model].skip:
                yield f"stages.{name}.models: {model} skips {name}. Take it out of one of the two"
        for entry, work in stage.data.items():
            if entry not in experiment.corpora and entry not in experiment.datasets:
                there = known([*experiment.corpora, *experiment.datasets])
                yield f"stages.{name}.data.{entry}: there is no such corpus or dataset. {there}"
            if work.start is not None and stage.start is None:
                yield (
                    f"stages.{name}.data.{entry}.start: {work.start}, but {name} starts from no stage. Set "
                    f"'stages.{name}.start', or leave it out"
                )
            before = experiment.stages.get(stage.start or "")
            if before is not None and work.start not in (None, *before.data):
                there = f"{stage.start} does not work on '{work.start}'. {known(before.data)}"
                yield f"stages.{name}.data.{entry}.start: {there}"


def _circles(experiment: Experiment) -> Iterator[str]:
    reported: set[str] = set()
    for name in experiment.stages:
        chain = [name]
        while (following := experiment.stages[chain[-1]].start) in experiment.stages and following not in chain:
            chain.append(str(following))
        if following == name and name not in reported:
            reported |= set(chain)
            yield f"stages: {' starts from '.join([*chain, name])}, a circle. Take `start` away from one of them"


def _searches(experiment: Experiment) -> Iterator[str]:
    stages = experiment.stages
    for name, stage in stages.items():
        source, place = stage.settings_from, f"stages.{name}.settings_from"
        if source is not None and source not in stages:
            yield f"{place}: '{source}' is not a stage. {known(stages)}"
        elif source is not None and not stages[source].search:
            yield f"{place}: {source} has no variants to choose from, nor tuning. Add either, or name another stage"


def _models(experiment: Experiment) -> Iterator[str]:
    for name, model in experiment.models.items():
        uses: list[tuple[str, str | None, Mapping[str, Any]]] = [
            ("backbone", model.backbone, experiment.backbones),
            ("tokenizer", model.tokenizer, experiment.tokenizers),
        ]
        uses += [("mechanism", each, experiment.mechanisms) for each in model.mechanisms]
        uses += [("skip", stage, experiment.stages) for stage in model.skip]
        uses += [("datasets", dataset, experiment.datasets) for dataset in model.datasets or []]
        uses += [("changes", stage, experiment.stages) for stage in model.changes]
        for place, parts, _ in _overrides(model):
            uses += [(f"{place}.backbone", parts.backbone, experiment.backbones)]
            uses += [(f"{place}.mechanism", each, experiment.mechanisms) for each in parts.mechanisms]
        for key, value, there in uses:
            if value is not None and value not in there:
                yield f"models.{name}.{key}: there is no '{value}'. {known(there)}"
        for stage, change in model.changes.items():
            place, section = f"models.{name}.changes.{stage}.data", experiment.stages.get(stage)
            if section is None:  # found above
                continue
            if change.changes_work and not _passes(name, model, stage, section):
                yield f"models.{name}.changes.{stage}: {name} does not pass {stage}. Take this out, or let it pass"
            elif (change.backbone or change.mechanisms) and not _reaches(name, model, stage, experiment.stages):
                unused = f"{name} passes neither {stage} nor a stage that starts from it"
                yield f"models.{name}.changes.{stage}: {unused}. Take this out, or let it pass one of them"
            for entry in change.data:
                if entry not in section.data:
                    yield f"{place}.{entry}: {stage} does not work on '{entry}'. {known(section.data)}"
                elif not _passes(name, model, stage, section):
                    yield f"{place}.{entry}: {name} does not pass {stage}. Name the first stage that it passes there"
                elif model.datasets is not None and entry in set(experiment.datasets) - set(model.datasets):
                    yield f"{place}.{entry}: models.{name}.datasets leaves {entry} out. Add it there, or take this out"


def _passes(name: str, model: Model, stage: str, section: Stage) -> bool:
    return stage not in model.skip and (section.models is None or name in section.models)


def _reaches(name: str, model: Model, stage: str, stages: Mapping[str, Stage]) -> bool:
    """Whether a model passes a stage, or one that starts from it, directly or not."""
    reached = {stage}
    for _ in stages:
        reached |= {later for later, section in stages.items() if section.start in reached}
    return any(_passes(name, model, later, stages[later]) for later in reached)


def _overrides(model: Model) -> Iterator[tuple[str, Override, str]]:
    """Yield the overrides of a model at stages, and at stages on single entries: place, override, backbone there."""
    for stage, change in model.changes.items():
        backbone = change.backbone or model.backbone
        yield f"changes.{stage}", change, backbone
        for entry, parts in change.data.items():
            yield f"changes.{stage}.data.{entry}", parts, parts.backbone or backbone


def _mechanisms_of_models(experiment: Experiment) -> Iterator[str]:
    for name, model in experiment.models.items():
        backbone = experiment.backbones.get(model.backbone)
        if backbone is None:
            continue
        if backbone.needs_mechanism and model.mechanism is None and not backbone.held_mechanisms:
            there = ", ".join(experiment.mechanisms) or "none; add an entry"
            yield f"models.{name}.mechanism: missing. Its backbone {model.backbone} takes one of: {there}"
        if not backbone.takes_mechanism and model.mechanism is not None:
            yield f"models.{name}.mechanism: its backbone {model.backbone} takes none. Leave it out"
        for place, parts, name_there in _overrides(model):
            changed = experiment.backbones.get(name_there)
            if changed is not None and not changed.takes_mechanism and parts.mechanism is not None:
                yield f"models.{name}.{place}.mechanism: its backbone takes none. Leave it out"


def _tokenizers(experiment: Experiment) -> Iterator[str]:
    there = [*experiment.corpora, *experiment.datasets]
    for name, tokenizer in experiment.tokenizers.items():
        if tokenizer.source != "trained":
            continue
        if tokenizer.corpus is None and len(experiment.corpora) != 1:
            yield f"tokenizers.{name}.corpus: missing. Name what it is trained on: {', '.join(there)}"
        for corpus in tokenizer.corpora:
            if corpus not in there:
                yield f"tokenizers.{name}.corpus: there is no '{corpus}'. {known(there)}"


def _word_vectors(experiment: Experiment) -> Iterator[str]:
    there = [*experiment.corpora, *experiment.datasets]
    for name, vectors in experiment.word_vectors.items():
        if vectors.source == "trained" and vectors.corpus is None and len(experiment.corpora) != 1:
            yield f"word_vectors.{name}.corpus: missing. Name what they are trained on: {', '.join(there)}"
        for corpus in vectors.corpora:
            if corpus not in there:
                yield f"word_vectors.{name}.corpus: there is no '{corpus}'. {known(there)}"
    uses = {f"backbones.{name}.vectors": backbone.word_vectors for name, backbone in experiment.backbones.items()}
    for name, model in experiment.models.items():
        if isinstance(model.start, WordVectorsStart):
            uses[f"models.{name}.start.word_vectors"] = model.start.word_vectors
    for place, vectors_used in uses.items():
        if vectors_used is not None and vectors_used not in experiment.word_vectors:
            yield f"{place}: there is no '{vectors_used}'. {known(experiment.word_vectors)}"


def _of_report(experiment: Experiment, report: ReportSettings) -> Iterator[str]:
    for name in report.opens_with or ():
        found = [results[name] for results in (report.tables, report.figures) if name in results]
        if not found:
            there = known([*report.tables, *report.figures])
            yield f"report.opens_with: there is no table or figure '{name}'. {there}"
        if any(result.divided != "never" for result in found):
            yield f"report.opens_with: '{name}' may be one for each dataset. Name others"
    yield from _shared_rules(tables=report.tables)
    yield from _shared_rules(figures=report.figures, analyses=report.analyses)
    yield from _measured(report)
    stages, models = experiment.stages, experiment.models
    uses: list[tuple[str, str | None, Iterable[str]]] = [
        ("report.reference", report.reference, models),
        ("report.baseline", report.baseline, models),
    ]
    for place, settings in report.results():
        uses += [(f"{place}.stage", stage, stages) for stage in settings.stages_passed()]
        lists = {name: value for name, value in settings if isinstance(value, list)}
        uses += [
            (f"{place}.{name}", stage, stages)
            for stage in settings.stages_added()
            for name, value in lists.items()
            if stage in value
        ]
        uses += [(f"{place}.models", model, models) for model in settings.models or []]
        if settings.reads == "word_vectors":
            named = settings.vectors_named()
            uses += [(f"{place}.word_vectors", name, experiment.word_vectors) for name in named or []]
            if named is None and not experiment.word_vectors:
                yield f"{place}: shows word vectors, but experiment.word_vectors has none. Add some, or take it out"
        shown = _shown_by(experiment, settings)
        uses += [(f"{place}.datasets", dataset, shown) for dataset in settings.datasets or []]
        for dataset in settings.datasets or shown:
            if dataset in experiment.datasets and (labels := experiment.datasets[dataset].labels):
                uses += [(f"{place}.positive", getattr(settings, "positive", None), labels)]
    for name, analysis in report.analyses.items():
        uses += [(f"report.analyses.{name}.stage", analysis.stage, stages)]
        uses += [(f"report.analyses.{name}.models", model, models) for model in analysis.models or []]
        for section in ("tables", "figures"):
            if name in getattr(report, section):
                taken = f"report.{section}.{name} makes files of the same name. Rename one of them"
                yield f"report.analyses.{name}: {taken}"
        if analysis.stage in stages:
            entries = stages[analysis.stage].data
            if analysis.dataset is None and len(entries) > 1:
                yield f"report.analyses.{name}.dataset: missing. Name one of: {', '.join(entries)}"
            elif analysis.dataset is not None and analysis.dataset not in entries:
                there = f"{analysis.stage} does not work on '{analysis.dataset}'. {known(entries)}"
                yield f"report.analyses.{name}.dataset: {there}"
    for place, value, there_are in uses:
        if value is not None and value not in there_are:
            yield f"{place}: there is no '{value}'. {known(there_are)}"


def rule_name(noun: str, name: str) -> str:
    """Return the name of the rule of a table, figure or analysis; Snakemake takes no other signs."""
    return f"{noun}_{name}".replace("-", "_").replace(".", "_")


def _shared_rules(**sections: Iterable[str]) -> Iterator[str]:
    """Yield the results with different names whose rules would have the same name."""
    first: dict[str, str] = {}
    for section, names in sections.items():
        for name in names:
            other = first.setdefault(rule_name("figure", name), name)
            if name != other:
                yield f"report.{section}.{name}: differs from '{other}' in '.', '-' and '_' alone. Rename one of them"


def _measured(report: ReportSettings) -> Iterator[str]:
    """Yield the results that have a name of a result of `make bench`, whatever their case and separators."""
    for noun, names in MEASURED.items():
        for section in (noun, "analyses"):
            for name in getattr(report, section):
                if rule_name(noun, name).lower() in {rule_name(noun, each) for each in names}:
                    yield f"report.{section}.{name}: `make bench` makes one of that name. Rename it"


def _names_alike(experiment: Experiment, report: ReportSettings) -> Iterator[str]:
    """Yield the names that differ only in case, and so are the same folder on some file systems."""
    kinds: list[dict[str, Iterable[str]]] = [
        {"experiment.corpora": experiment.corpora, "experiment.datasets": experiment.datasets},
        *(
            {f"experiment.{section}": getattr(experiment, section)}
            for section in ("tokenizers", "word_vectors", "stages", "models")
        ),
        {"report.tables": report.tables, "report.analyses": report.analyses},
        {"report.figures": report.figures, "report.analyses": report.analyses},
    ]
    errors: dict[str, None] = {}
    for kind in kinds:
        first: dict[str, tuple[str, str]] = {}
        for section, names in kind.items():
            for name in names:
                place, other = first.setdefault(name.lower(), (section, name))
                if name != other:
                    errors[
                        f"{section}.{name}: differs from {place}.{other} in upper and lower case alone, and some file "
                        "systems give both one place. Rename one of them"
                    ] = None
    yield from errors


def _shown_by(experiment: Experiment, settings: Any) -> list[str]:
    """Return the corpora and datasets that a table or figure may show: those of its stages, if it has any."""
    shown = settings.stages_passed()
    if settings.reads in ("texts", "documents"):
        return list(experiment.datasets)
    if not shown or not set(shown) <= set(experiment.stages):
        return [*experiment.corpora, *experiment.datasets]
    return list(dict.fromkeys(entry for stage in shown for entry in experiment.stages[stage].data))


def known(names: Iterable[str]) -> str:
    """Return the end of a message about a name that is not one of `names`."""
    return f"Known: {', '.join(names) or 'none'}"
