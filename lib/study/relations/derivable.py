"""Whether a run can be derived: what it does, by which backbone and tokeniser, and from which run."""

from collections.abc import Iterator

from pydantic import ValidationError

from lib.core.search_space import variant_name
from lib.core.settings import sentences
from lib.study.graph import Graph
from lib.study.stages import SCRATCH, problems_of_settings


def _mechanisms_fit(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        try:
            graph.backbone_at(model, stage, entry)
        except ValidationError as error:
            for problem in error.errors():
                yield f"models.{model}: {problem['msg']}"


def _deviations_fit(graph: Graph) -> Iterator[str]:
    for name, model in graph.experiment.models.items():
        for stage, deviation in model.deviations.items():
            place, section = f"models.{name}.deviations.{stage}", graph.experiment.stages[stage]
            for work in section.data.values():
                try:
                    own = deviation.of(work)
                except ValidationError as error:
                    yield from (f"{'.'.join([place, *key])}: {sentence}" for key, sentence in sentences(error))
                    continue
                for settings in section.tried():
                    for setting, sentence in problems_of_settings(own, settings):
                        yield f"{place}.{setting}: {sentence} (in {variant_name(settings)})"


def _tokenizers_are_told(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for model, stage in graph.passages:
        if experiment.models[model].tokenizer or len(graph.shared_tokenizers) == 1:
            continue
        reading = [entry for entry in graph.entries(model, stage) if _reads_tokens(graph, model, stage, entry)]
        if missing := [entry for entry in reading if graph.corpus(entry).tokenizer is None]:
            known = ", ".join(experiment.tokenizers) or "none; add an entry"
            silent = ", ".join(missing)
            yield f"models.{model}.tokenizer: missing, and {silent} names none either. Name one of: {known}"


def _parents_are_told(graph: Graph) -> Iterator[str]:
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
            yield (
                f"stages.{stage}.data.{entry}: models start from {parent}, which has several entries and none "
                f"for {entry}: {known}. Name one of them as its start, or add it to {parent}"
            )
        elif not graph.passes(name, parent, before):
            yield (
                f"models.{name}.datasets: {stage} on {entry} starts from {parent} on {before}, which is left out. "
                f"Name {before}, too, or let {name} skip {parent}"
            )


def _reads_tokens(graph: Graph, model: str, stage: str, entry: str) -> bool:
    """Whether a model reads tokens at a stage, whatever mechanism it has."""
    return "states" in graph.experiment.backbones[graph.names_at(model, stage, entry)[0]].abilities


RELATIONS = (
    _mechanisms_fit,
    _deviations_fit,
    _tokenizers_are_told,
    _parents_are_told,
)
