"""Check that backbone, tokeniser, task and parent of each run can be derived."""

from collections.abc import Iterator

from pydantic import ValidationError

from lib.core.search_space import variant_name
from lib.core.settings import sentences
from lib.study.graph import Graph
from lib.study.stages import SCRATCH, settings_errors


def _mechanisms_fit(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        try:
            graph.backbone_at(model, stage, entry)
        except ValidationError as error:
            for detail in error.errors():
                yield f"models.{model}: {detail['msg']}"


def _changed_works_fit(graph: Graph) -> Iterator[str]:
    for name, model in graph.experiment.models.items():
        for stage, change in model.changes.items():
            place, section = f"models.{name}.changes.{stage}", graph.experiment.stages[stage]
            for work in section.data.values() if change.changes_work else ():
                try:
                    own = change.of(work)
                except ValidationError as error:
                    yield from (f"{'.'.join([place, *key])}: {sentence}" for key, sentence in sentences(error))
                    continue
                for settings in section.tried():
                    for setting, sentence in settings_errors(own, settings):
                        yield f"{place}.{setting}: {sentence} (in {variant_name(settings)})"


def _tokenizers_are_named(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for model, stage in graph.model_stages:
        if experiment.models[model].tokenizer or len(graph.shared_tokenizers) == 1:
            continue
        entries = [entry for entry in graph.entries(model, stage) if _reads_tokens(graph, model, stage, entry)]
        if missing := [entry for entry in entries if graph.corpus(entry).tokenizer is None]:
            known = ", ".join(experiment.tokenizers) or "none; add an entry"
            unnamed = ", ".join(missing)
            yield f"models.{model}.tokenizer: missing, and {unnamed} names none either. Name one of: {known}"


def _parents_are_named(graph: Graph) -> Iterator[str]:
    for name, stage, entry in graph.places:
        model, parent = graph.experiment.models[name], graph.parent_stage(name, stage)
        start = graph.experiment.stages[stage].start
        if parent is None:
            if start and model.start is None and _reads_tokens(graph, name, stage, entry):
                yield (
                    f"models.{name}: skips {start}, from which {stage} starts. Leave it in, or give "
                    f"the model a start: a folder, a repository, or '{SCRATCH}'"
                )
            continue
        before = graph.parent_dataset(stage, parent, entry)
        if before is None:
            known = ", ".join(graph.experiment.stages[parent].data)
            remedy = "Name one of them as its start" if parent == start else f"Let {name} pass {start}"
            yield (
                f"stages.{stage}.data.{entry}: {name} starts from {parent}, which has several entries and none "
                f"for {entry}: {known}. {remedy}, or add {entry} to {parent}"
            )
        elif not graph.has_runs(name, parent, before):
            yield (
                f"models.{name}.datasets: {stage} on {entry} starts from {parent} on {before}, which is left out. "
                f"Name {before}, too, or let {name} skip {parent}"
            )


def _reads_tokens(graph: Graph, model: str, stage: str, entry: str) -> bool:
    """Whether a model reads tokens at a stage, whatever mechanism it has."""
    return "states" in graph.experiment.backbones[graph.names_at(model, stage, entry)[0]].abilities


RELATIONS = (
    _mechanisms_fit,
    _changed_works_fit,
    _tokenizers_are_named,
    _parents_are_named,
)
