"""Check that tasks, recipes, backbones, weights and data fit together wherever a model has runs."""

from collections.abc import Iterator

from lib.core.extensions import load, part
from lib.core.labels import LabelForm
from lib.core.settings import known
from lib.core.weights import ForeignStart, WordVectorsStart
from lib.study.graph import Graph
from lib.study.places import Place, place_of
from lib.study.run import class_weight_errors, parts_errors
from lib.study.stages import settings_errors

SEARCHED = {"variants": "and so a model of each", "tuning": "whose trials keep no model"}
"""Why a stage with a search leaves no model to start from, by the section of the search."""
_TEXTS = {"single": "single texts", "together": "pairs read together", "separately": "pairs read separately"}
"""What documents are, in words."""
_LABELS: dict[LabelForm, str] = {
    "class": "a class per document",
    "number": "a number per document",
    "set": "a set of classes per document",
    "word": "a label per word",
    "span": "a label per span",
}
"""What labels are, in words."""


def fit_errors(graph: Graph, processes: int = 1) -> Iterator[str]:
    """Yield the settings that do not fit together in an experiment whose runs can be derived.

    Args:
        graph: graph of the study.
        processes: number of processes that share a training.
    """
    found: dict[str, list[str]] = {}
    for place in graph.places:
        at = place_of(graph, *place)
        batches = [work.recipe.batch_size for work in at.tried if work.recipe]
        if at.trains and min(batches) < processes:
            error = f"{at}.recipe.batch_size: {processes} processes cannot share {min(batches)}"
            found.setdefault(f"{error} documents", [])
        for check in (_parts, _labels, _lengths, _head, _weights, _word_vectors, _best_settings, _teacher):
            for error in check(graph, at):
                found.setdefault(error, []).append(at.model)
    yield from (f"{error} ({', '.join(dict.fromkeys(models))})" if models else error for error, models in found.items())
    for name, stage in graph.experiment.stages.items():
        if stage.start is not None and (search := graph.experiment.stages[stage.start].search):
            instead = f"Start from the stage before it; settings_from: {stage.start} takes the best settings"
            yield f"stages.{name}.start: {stage.start} has {search}, {SEARCHED[search]}. {instead}"
        if stage.settings_from and stage.search:
            yield f"stages.{name}.settings_from: {name} has {stage.search} itself. Leave one of them out"


def _parts(graph: Graph, at: Place) -> Iterator[str]:
    starts = at.parent is not None or isinstance(graph.experiment.models[at.model].start, ForeignStart)
    blocks, labels = at.backbone.blocks() or 0, (at.dataset and at.dataset.labels) or ()
    for work in at.tried:
        recipe = work.recipe if at.trains else None
        yield from (f"{at}.{error}" for error in parts_errors(work.task, recipe, at.backbone, starts=starts))
        yield from (f"{at}.{error}" for error in class_weight_errors(work.task, work.recipe, at.backbone, labels))
        if recipe and recipe.freeze_layers > blocks:
            yield f"{at}.recipe.freeze_layers: {recipe.freeze_layers} is too many, since there are {blocks} blocks"


def _labels(graph: Graph, at: Place) -> Iterator[str]:
    task, dataset = at.work.task, at.dataset
    if dataset is None:
        if task.labelled:
            yield f"{at}: {task.kind} needs labels, but {at.entry} is a corpus without"
        return
    if dataset.texts not in task.texts:
        taken = " or ".join(_TEXTS[each] for each in task.texts)
        yield f"{at}: {task.kind} reads {taken}, but the documents of {at.entry} are {_TEXTS[dataset.texts]}"
    if dataset.texts == "together" and not at.backbone.takes_pairs:
        yield f"{at}: a backbone of kind {at.backbone.kind} cannot read the pairs of {at.entry}"
    elif dataset.texts == "together" and at.reads_tokens:
        tokenizer = graph.tokenizer_of(at.model, at.entry)
        if not graph.experiment.tokenizers[tokenizer].enclose:
            yield f"tokenizers.{tokenizer}.enclose: false puts nothing between the two texts of {at.entry}"
    if task.labelled and dataset.label_form != task.label_form:
        needed, found = (_LABELS[each.label_form] for each in (task, dataset))
        settings = "label_per, label_range and label_set decide"
        yield f"{at}: {task.kind} needs {needed}, but {at.entry} has {found}, as its {settings}"
    elif task.labelled and task.label_form != "number":
        yield from (f"{at}.task.{error}" for error in task.label_errors(dataset.labels))


def _lengths(graph: Graph, at: Place) -> Iterator[str]:
    reach, tokens = at.backbone.longest(), graph.max_tokens(at.model, at.entry)
    name = graph.names_at(at.model, at.stage, at.entry)[0]
    if reach is not None and tokens > reach:
        yield f"backbones.{name}: reads {reach} tokens at most, but {at.entry} has max_tokens = {tokens}"
    if not at.reads_tokens:
        return
    tokenizer = graph.tokenizer_of(at.model, at.entry)
    settings = graph.experiment.tokenizers[tokenizer]
    needed = max(work.task.sentinels(tokens) for work in at.tried)
    own = settings.algorithm == "published" and not settings.sentinels  # its files may have some
    if settings.sentinels < needed and not own:
        needs = f"where a document of max_tokens = {tokens} takes {needed}"
        yield f"tokenizers.{tokenizer}.sentinels: {settings.sentinels} are too few at {at.stage} on {at.entry}, {needs}"
    if at.dataset and at.dataset.label_per == "span" and at.dataset.window_stride > tokens - 2:
        stride = f"{at.entry} has window_stride = {at.dataset.window_stride}, so some would be in none"
        yield f"models.{at.model}.max_tokens: a window holds {tokens - 2} tokens and [CLS] and [SEP], but {stride}"


def _head(graph: Graph, at: Place) -> Iterator[str]:
    """Check that what does not train has a head for its task, and the labels that this head has learnt."""
    task = at.work.task
    if at.work.recipe or not task.predicts or task.trains_on is None or at.parent is None:
        return
    stage, entry = at.parent
    trained, place = graph.work(at.model, stage, entry).task, f"{at}: has no recipe, so it needs a trained head, but"
    if (trained.head or trained.kind) != (task.head or task.kind):
        yield f"{place} {stage} trains {trained.kind}"
    elif task.labelled and at.dataset and (before := graph.experiment.datasets.get(entry)):
        asked, given = at.dataset.labels, before.labels
        if len(asked) != len(given) or (asked != given and set(asked) == set(given)):
            yield f"{place} the labels of {entry} at {stage} are {given}, not {asked}"


def _weights(graph: Graph, at: Place) -> Iterator[str]:
    if at.parent is None:
        return
    stage, entry = at.parent
    for reason in at.backbone.takeover_errors(graph.backbone_at(at.model, stage, entry)):
        yield f"{at}: from {stage} to {at.stage}, {reason}"
    if not at.reads_tokens:
        return
    if missing := graph.work(at.model, stage, entry).no_model_reason:
        yield f"{at}: starts from {stage}, which {missing}"
    before, after = graph.tokenizer_of(at.model, entry), graph.tokenizer_of(at.model, at.entry)
    if before != after:
        yield f"{at}: reads by the tokeniser {after}, but starts from {stage} on {entry}, read by {before}. Use one"


def _word_vectors(graph: Graph, at: Place) -> Iterator[str]:
    start = graph.experiment.models[at.model].start
    if not isinstance(start, WordVectorsStart) or at.parent:
        return
    place = f"models.{at.model}.start.word_vectors"
    width, dimension = at.backbone.width(), graph.experiment.word_vectors[start.word_vectors].dimension
    if not at.backbone.starts_from_word_vectors:
        yield f"{place}: a backbone of kind {at.backbone.kind} starts from none"
    elif width != dimension:
        yield f"{place}: {start.word_vectors} has {dimension} dimensions, but the embeddings have {width}"


def _best_settings(graph: Graph, at: Place) -> Iterator[str]:
    """Check that the best settings of another stage exist, and fit what takes them."""
    section = graph.experiment.stages[at.stage]
    source, place = section.settings_from, f"stages.{at.stage}.settings_from"
    if section.tuning and at.work.recipe and not at.trains:
        yield f"stages.{at.stage}.models: does not train on {at.entry}, so there is nothing to tune. Name those that do"
    if source is None or not at.trains:
        return
    searching, searcher = graph.experiment.stages[source], graph.searcher(at.model, at.stage)
    if searcher is None:
        yield f"{place}: {source} is neither passed by the model itself nor by one model alone"
        return
    if not graph.has_runs(searcher, source, at.entry):
        yield f"{place}: {source} does not search on {at.entry} with {searcher}. Add it there"
        return
    task = graph.work(searcher, source, at.entry).task
    if searching.variants and not (task.labelled and task.label_form in ("class", "set", "word")):
        yield f"{place}: the best has the highest F1, which {task.kind}, the task of {source}, lacks"
    for settings in searching.tried():
        for key, sentence in settings_errors(at.work, settings):
            yield f"{place}: the best of {source} may not fit here: {key}: {sentence}"


def _teacher(graph: Graph, at: Place) -> Iterator[str]:
    """Check that a teacher is trained for the task; an extension checks that its states can be imitated."""
    models, section = graph.experiment.models, graph.experiment.stages[at.stage]
    searching = graph.experiment.stages[section.settings_from] if section.settings_from else section
    several = section.settings_from or section.tuning
    for work in at.tried:
        teacher = work.task.taught_by() or work.task.imitates()
        if teacher is None or not (at.trains or work.task.taught_by()):
            continue
        if teacher not in models:
            yield f"{at}.task.teacher: there is no '{teacher}'. {known(teacher, models)}"
        elif several and any("task.teacher" in settings for settings in searching.tried()):
            yield f"{at}.task.teacher: is searched, but all trials, and all that take the best, need one teacher"
        elif work.task.taught_by():
            if reason := _no_teacher(graph, teacher, at, work.task.head):
                yield f"{at}.task.teacher: {teacher} {reason}"
        elif reason := load(part("lib.study.imitating")).not_imitated(graph, teacher, at, work):
            yield f"{at}.task.teacher: {reason}"


def _no_teacher(graph: Graph, teacher: str, at: Place, head: str | None) -> str | None:
    """Return why a model cannot teach others at a stage, as the end of a sentence; None = it can."""
    if not graph.has_runs(teacher, at.stage, at.entry):
        return f"does not pass {at.stage} there"
    if search := graph.experiment.stages[at.stage].search:
        return f"has no one model there, since {at.stage} has {search}"
    work = graph.work(teacher, at.stage, at.entry)
    trains = graph.trains(teacher, at.stage, at.entry)
    if not trains or (work.task.head or work.task.kind) != head or work.task.taught_by():
        return f"trains no {head} by labels alone there"
    return work.no_model_reason
