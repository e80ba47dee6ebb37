"""Check that backbone, tokeniser, task and parent of each run can be derived, once all names exist."""

from collections.abc import Iterator

from pydantic import ValidationError

from lib.core.search_space import variant_name
from lib.core.settings import sentences
from lib.study.graph import Graph
from lib.study.stages import SCRATCH, settings_errors


def derivation_errors(graph: Graph) -> Iterator[str]:
    """Yield why the backbone, tokeniser, task or parent of a run cannot be derived."""
    for check in (_mechanisms, _changed_works, _tokenizers, _parents):
        yield from check(graph)


def _mechanisms(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        try:
            graph.backbone_at(model, stage, entry)
        except ValidationError as error:
            for detail in error.errors():
                yield f"models.{model}: {detail['msg']}"


def _changed_works(graph: Graph) -> Iterator[str]:
    for model, stage in graph.model_stages:
        change, section = graph.changed_work(model, stage), graph.experiment.stages[stage]
        place = f"models.{model}.changes.{stage}"
        for entry in graph.entries(model, stage) if change else ():
            try:
                own = graph.work(model, stage, entry)
            except ValidationError as error:
                yield from (f"{'.'.join([place, *key])}: {sentence}" for key, sentence in sentences(error))
                continue
            for settings in section.tried():
                for setting, sentence in settings_errors(own, settings):
                    yield f"{place}.{setting}: {sentence} (in {variant_name(settings)})"


def _tokenizers(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for model, stage, entry in graph.places:
        named = experiment.models[model].tokenizer or graph.corpus(entry).tokenizer
        if named is None and len(graph.shared_tokenizers) != 1 and graph.reads_tokens(model, stage, entry):
            there = ", ".join(experiment.tokenizers) or "none; add an entry"
            yield f"models.{model}.tokenizer: missing, and {entry} names none either. Name one of: {there}"


def _parents(graph: Graph) -> Iterator[str]:
    for name, stage, entry in graph.places:
        model, parent = graph.experiment.models[name], graph.parent_stage(name, stage)
        start = graph.experiment.stages[stage].start
        if parent is None:
            if start and model.start is None and graph.reads_tokens(name, stage, entry):
                yield f"models.{name}: skips {start}, from which {stage} starts. Keep it, or add a start ('{SCRATCH}')"
            continue
        before = graph.parent_dataset(stage, parent, entry)
        if before is None:
            known = ", ".join(graph.experiment.stages[parent].data)
            remedy = "Name one of them as its start" if parent == start else f"Let {name} pass {start}"
            several = f"{name} starts from {parent}, which has several entries and none for {entry}: {known}"
            yield f"stages.{stage}.data.{entry}: {several}. {remedy}, or add {entry} to {parent}"
        elif not graph.has_runs(name, parent, before):
            left_out = f"{stage} on {entry} starts from {parent} on {before}, which is left out"
            yield f"models.{name}.datasets: {left_out}. Name {before}, too, or let {name} skip {parent}"
