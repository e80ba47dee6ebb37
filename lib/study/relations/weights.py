"""Check that weights exist, and fit the model that starts from them."""

from collections.abc import Iterator

from lib.core.weights import ForeignStart, WordVectorsStart
from lib.study.graph import Graph


def _heads_are_trained(graph: Graph) -> Iterator[str]:
    for model, stage in graph.model_stages:
        parent = graph.parent_stage(model, stage)
        for entry, work in graph.works(model, stage).items():
            if work.recipe or not work.task.predicts:
                continue
            error = None
            if parent is not None:
                headless = work.task.trains_on is None
                error = None if headless else _head_error(graph, model, stage, entry, parent)
            elif graph.reads_tokens(model, stage, entry) and not isinstance(
                graph.experiment.models[model].start, ForeignStart
            ):
                error = f"{model} has random weights there. Add one, or let it start from a stage that trains"
            if error:
                yield f"stages.{stage}.data.{entry}: has no recipe, so it needs a trained model, but {error}"


def _head_error(graph: Graph, model: str, stage: str, entry: str, parent: str) -> str | None:
    """Return why the head that a model trains at `parent` cannot be used at `stage`; None = it can."""
    before = graph.parent_dataset(stage, parent, entry)
    assert before is not None  # it can be derived
    task, trained = graph.work(model, stage, entry).task, graph.work(model, parent, before).task
    if (trained.head or trained.kind) != (task.head or task.kind):
        return f"{parent} trains {trained.kind}. Add one, or start from a stage that trains {task.kind}"
    datasets = graph.experiment.datasets
    if task.labelled and {entry, before} <= datasets.keys():
        asked, given = (datasets[name].labels for name in (entry, before))
        if len(asked) != len(given):
            there = f"{parent} trains {len(given)} labels on {before}, not {len(asked)}"
            return f"{there}. Add one, or give both the same labels"
        if asked != given and set(asked) == set(given):
            return f"the labels of {before} are {given}, not {asked}. Name both in the same order"
    return None


def _weights_are_left(graph: Graph) -> Iterator[str]:
    for model, stage, entry, parent, before in _inheritances(graph):
        reason = graph.work(model, parent, before).no_model_reason
        if reason and graph.reads_tokens(model, stage, entry):
            yield (
                f"stages.{stage}.data.{entry}: {model} starts from {parent}, which {reason}. Start from a "
                f"stage before it, or let {model} skip {parent}"
            )


def _weights_can_be_handed_over(graph: Graph) -> Iterator[str]:
    for model, stage, entry, parent, source in _inheritances(graph):
        taking, leaving = graph.backbone_at(model, stage, entry), graph.backbone_at(model, parent, source)
        places = [changes.data for changes in graph.experiment.models[model].changes.values()]
        where = f" on {entry}" if any(entry in data for data in places) else ""
        for reason in taking.takeover_errors(leaving):
            yield f"models.{model}: from {parent} to {stage}{where}, {reason}"
        before, after = graph.tokenizer_of(model, source), graph.tokenizer_of(model, entry)
        if before != after and graph.reads_tokens(model, stage, entry):
            yield (
                f"models.{model}: {stage} reads {entry} by the tokeniser {after}, but starts from {parent} on "
                f"{source}, which it read by {before}. Let both have the same"
            )


def _word_vectors_fit(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for name, backbone in experiment.backbones.items():
        if backbone.word_vectors is not None and backbone.folders():
            yield f"backbones.{name}.vectors_folder: follows from vectors. Leave it out"
    for model, stage, entry in graph.places:
        start = experiment.models[model].start
        if not isinstance(start, WordVectorsStart) or graph.parent_stage(model, stage):
            continue
        backbone, place = graph.backbone_at(model, stage, entry), f"models.{model}.start.word_vectors"
        if not backbone.starts_from_word_vectors:
            yield f"{place}: its backbone, of kind {backbone.kind}, starts from none. Leave it out"
            continue
        width, dimension = backbone.width(), experiment.word_vectors[start.word_vectors].dimension
        if width != dimension:
            yield (
                f"{place}: {start.word_vectors} has {dimension} dimensions, but the embeddings of the backbone "
                f"{graph.names_at(model, stage, entry)[0]} have {width}. Give both the same number"
            )


def _inheritances(graph: Graph) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield model, stage and entry, and the stage and entry that its weights come from."""
    for model, stage, entry in graph.places:
        if parent := graph.parent_stage(model, stage):
            before = graph.parent_dataset(stage, parent, entry)
            assert before is not None  # it can be derived
            yield model, stage, entry, parent, before


RELATIONS = (
    _heads_are_trained,
    _weights_are_left,
    _weights_can_be_handed_over,
    _word_vectors_fit,
)
