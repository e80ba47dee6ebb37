"""The rows of tables and figures: the models that they show, and their runs."""

from collections.abc import Mapping
from typing import NamedTuple

from lib.results.settings import ResultSettings
from lib.study.graph import Graph
from lib.study.runs import as_json


class Rows(NamedTuple):
    """The rows of a table or figure."""

    stages: Mapping[str, list[str]]
    """Entries of each stage's `data` that are shown."""
    owners: Mapping[str, Mapping[str, Mapping[str, str]]]
    """The model that owns the runs, by model, stage and entry. Stages and entries without runs are left out."""
    row_of: Mapping[str, str]
    """The row of every model with runs at the stages. Models with the same runs share a row, named after the first."""
    shown: list[str]
    """The rows, in order."""


def rows_of(graph: Graph, settings: ResultSettings, dataset: str | None = None) -> Rows:
    """Return the rows of a table or figure.

    Args:
        graph: graph of the study.
        settings: settings of the table or figure.
        dataset: the only one that it shows, perhaps as all of its folds; None = those of its settings.
    """
    passed, added = settings.stages_passed(), settings.stages_added()
    folds = [each for each, name in pooled_names(graph, settings).items() if name == dataset]
    shown = folds or ([dataset] if dataset else [])
    entries = {each: shown or shown_entries(graph, settings, each) for each in [*added, *passed]}
    owners: dict[str, dict[str, dict[str, str]]] = {}
    for model in graph.experiment.models:
        of_model = {
            stage: {name: graph.owner(model, stage, name) for name in names if graph.has_runs(model, stage, name)}
            for stage, names in entries.items()
        }
        of_model = {stage: found for stage, found in of_model.items() if found}
        if of_model and set(passed) <= set(of_model):
            owners[model] = of_model
    first: dict[str, str] = {}
    row_of = {model: first.setdefault(as_json(found), model) for model, found in owners.items()}
    asked = [model for model in settings.models or row_of if model in row_of]
    return Rows(entries, owners, row_of, list(dict.fromkeys(row_of[model] for model in asked)))


def shown_entries(graph: Graph, settings: ResultSettings, stage: str) -> list[str]:
    """Return the entries of a stage's `data` that a table or figure shows; all if it names none of them."""
    entries = list(graph.experiment.stages[stage].data)
    return [entry for entry in settings.datasets or () if entry in entries] or entries


def pooled_names(graph: Graph, settings: ResultSettings) -> dict[str, str]:
    """Return the name under which a table or figure pools each dataset that is a fold; of none if it pools none."""
    datasets = graph.experiment.datasets.items() if settings.pools else ()
    return {name: name.removesuffix(f"-{each.split.fold}") for name, each in datasets if each.split.fold}


def results_of(graph: Graph, name: str, settings: ResultSettings) -> dict[str, str | None]:
    """Return the names of the files of an entry of the report, each with its only dataset; None = all datasets."""
    if settings.divided == "never":
        return {name: None}
    (stage,) = settings.stages_passed()
    names = pooled_names(graph, settings)
    shown = dict.fromkeys(names.get(each, each) for each in shown_entries(graph, settings, stage))
    datasets = [each for each in shown if rows_of(graph, settings, each).shown]
    alone = settings.divided == "if_several" and len(datasets) == 1
    return {name if alone else f"{name}_{dataset}": dataset for dataset in datasets}
