"""Check that searches have something to search, and that their best settings fit the stages that take them."""

from collections.abc import Iterator

from lib.study.graph import Graph
from lib.study.stages import settings_errors

SEARCHED = {"variants": "and so a model of each", "tuning": "whose trials keep no model"}
"""Why a stage with a search leaves no model to start from, by the section of the search."""


def _searches_leave_no_model(graph: Graph) -> Iterator[str]:
    stages = graph.experiment.stages
    for name, stage in stages.items():
        if stage.start is not None and (search := stages[stage.start].search):
            yield (
                f"stages.{name}.start: {stage.start} has {search}, {SEARCHED[search]}. Start from the stage before it; "
                f"settings_from: {stage.start} takes the best settings"
            )


def _best_settings_fit(graph: Graph) -> Iterator[str]:
    for name, stage in graph.experiment.stages.items():
        source, place = stage.settings_from, f"stages.{name}.settings_from"
        if source is None:
            continue
        if stage.search:
            yield f"{place}: {name} has {stage.search} itself. Leave one of them out"
        if name in _needed(graph, source):
            yield f"{place}: {source} itself needs {name}, a circle. Let {source} start from another stage"
        passing = ", ".join(model for model, passed in graph.model_stages if passed == source) or "no model"
        taking = [model for model, passed, entry in graph.places if passed == name and graph.trains(model, name, entry)]
        if missing := [model for model in dict.fromkeys(taking) if graph.searcher(model, name) is None]:
            yield (
                f"{place}: {source} is passed by {passing}. The best settings are those of a model's own search, or of "
                f"the only one, so {', '.join(missing)} would take none. Let stages.{source}.models name one model, or "
                "these, too"
            )
        yield from _taking_errors(graph, name, source)


def _taking_errors(graph: Graph, stage: str, source: str) -> Iterator[str]:
    """Yield why the best settings of `source` do not fit `stage`."""
    place, searching = f"stages.{stage}.settings_from", graph.experiment.stages[source]
    found: dict[tuple[str, str], None] = {}
    for entry, work in graph.experiment.stages[stage].data.items():
        searchers = {graph.searcher(model, stage) for model, *on in graph.places if on == [stage, entry]} - {None}
        if entry not in searching.data:
            yield f"{place}: {source} does not search on {entry}. Add it to the data of {source}"
        elif missing := sorted(model for model in searchers if model and not graph.has_runs(model, source, entry)):
            yield f"{place}: at {source}, {', '.join(missing)} is not made for {entry} (its `datasets`). Add it there"
        elif searching.search == "variants":
            task = searching.data[entry].task
            if not task.labelled or task.label_per != "document" or task.numbers:
                yield f"{place}: the best has the highest macro-F1, which {task.kind}, the task of {source}, lacks"
        for settings in searching.tried() if work.recipe is not None else ():
            found |= dict.fromkeys(settings_errors(work, settings))
    for key, sentence in found:
        yield f"{place}: the best of {source} may not fit here: {key}: {sentence}"


def _needed(graph: Graph, stage: str) -> set[str]:
    """Return the stages whose runs those of `stage` need, directly or not."""
    waiting, found = [stage], set[str]()
    while waiting:
        section = graph.experiment.stages[waiting.pop()]
        for following in (section.start, section.settings_from):
            if following is not None and following not in found:
                found.add(following)
                waiting.append(following)
    return found


def _trials_train(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        section = graph.experiment.stages[stage]
        if section.tuning and section.data[entry].recipe and not graph.trains(model, stage, entry):
            yield (
                f"stages.{stage}.models: {model} does not train on {entry}, so there is nothing to tune. Name "
                "those that do"
            )


RELATIONS = (
    _searches_leave_no_model,
    _best_settings_fit,
    _trials_train,
)
