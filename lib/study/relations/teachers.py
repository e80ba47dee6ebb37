"""Check that teachers are trained for the task, and that their states can be imitated."""

from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from lib.attention.settings import MechanismSettings
from lib.core.weights import ForeignStart
from lib.study.graph import Graph
from lib.study.relations.works import all_works, searched
from lib.study.stages import Work
from lib.tasks.settings import TaskSettings


def _teachers_fit(graph: Graph) -> Iterator[str]:
    for model, stage in graph.model_stages:
        for entry, work in graph.works(model, stage).items():
            teacher = work.task.taught_by()
            if teacher is not None and (error := _teacher_error(graph, teacher, stage, entry, work.task.head)):
                yield f"models.{model}: at {stage} on {entry} its teacher is {error}"


def _teacher_error(graph: Graph, teacher: str, stage: str, entry: str, head: str | None) -> str | None:
    """Return why a model cannot teach others at a stage, as the end of a sentence; None = it can."""
    if teacher not in graph.experiment.models:
        return f"'{teacher}', which is not a model. Known: {', '.join(graph.experiment.models)}"
    if not graph.has_runs(teacher, stage, entry):
        return f"{teacher}, which does not pass {stage} there. Name one that does"
    if search := graph.experiment.stages[stage].search:
        return f"{teacher}, but {stage} has {search}, and no one model of it. Leave one of them out"
    work = graph.work(teacher, stage, entry)
    if not graph.trains(teacher, stage, entry) or (work.task.head or work.task.kind) != head or work.task.taught_by():
        return f"{teacher}, which trains no {head} by labels alone there. Name a model that does"
    if reason := work.no_model_reason:
        return f"{teacher}, where {stage} {reason}. Change that"
    return None


def _imitated_models_fit(graph: Graph) -> Iterator[str]:
    for place, _, work in all_works(graph):
        for field in ("teacher_backbone", "teacher_weights"):
            if work.task.imitates() is not None and getattr(work.task, field) is not None:
                yield f"{place}.task.{field}: follows from the teacher. Leave it out"
    for name, section in graph.experiment.stages.items():
        source = section.settings_from or (name if section.tuning else None)
        if source and any("task.teacher" in settings for settings in graph.experiment.stages[source].tried()):
            yield f"stages.{source}: searches task.teacher, but {name} needs one teacher for all trials. Name one"
    for model, stage, entry in graph.places:
        if graph.trains(model, stage, entry):
            for work in searched(graph, model, stage, entry):
                if error := _imitation_error(graph, model, stage, entry, work.task):
                    yield f"models.{model}: at {stage} on {entry} its teacher is {error}"
                elif error := _match_error(graph, model, stage, entry, work):
                    yield f"models.{model}: at {stage} on {entry} {error}"


def _imitation_error(graph: Graph, model: str, stage: str, entry: str, task: TaskSettings) -> str | None:
    """Return why a model cannot imitate its teacher, as the end of a sentence; None = it can, or has no teacher.

    The teacher has the weights that it would start the stage with.
    """
    models, teacher = graph.experiment.models, task.imitates()
    if teacher is None:
        return None
    if teacher not in models:
        return f"'{teacher}', which is not a model. Known: {', '.join(models)}"
    try:
        other, own = graph.backbone_before(teacher, stage, entry), graph.backbone_at(model, stage, entry)
    except ValidationError as error:
        return f"{teacher}, whose backbone is none before {stage}: {error.errors()[0]['msg']}"
    if not task.trains(other):
        return f"{teacher}, whose backbone of kind {other.kind} has no states to imitate. Name another model"
    weights, reason = _weights_before(graph, teacher, stage, entry)
    if reason:
        return f"{teacher}, which {reason}"
    if (own, weights) == (other, _weights_before(graph, model, stage, entry)[0]):
        what = "itself" if teacher == model else f"{teacher}, the same as itself,"
        return (
            f"{what} with the same attention, so there is nothing to learn. Let it skip {stage}, or change its "
            f"mechanism there (models.{model}.changes.{stage})"
        )
    if _differ(other.width(), own.width()):
        return f"{teacher}, whose states are {other.width()} wide and not {own.width()}. Name a model with as wide ones"
    if getattr(task, "layers", None) == "all" and _differ(other.blocks(), own.blocks()):
        return f"{teacher}, which has {other.blocks()} layers and not {own.blocks()}. Set layers: last, or name another"
    parent = graph.parent_stage(teacher, stage)
    before = parent and graph.parent_dataset(stage, parent, entry)
    reads, tokens = graph.tokenizer_of(teacher, before or entry), graph.max_tokens(model, entry)
    if reads != (named := graph.tokenizer_of(model, entry)):
        return f"{teacher}, which reads by the tokeniser {reads} and not by {named}. Let both have the same"
    if (reach := other.longest()) is not None and tokens > reach:
        return (
            f"{teacher}, which reads {reach} tokens at most, but {entry} has max_tokens = {tokens}. Lower it, or name "
            "a teacher that reads them"
        )
    return None


def _match_error(graph: Graph, model: str, stage: str, entry: str, work: Work) -> str | None:
    """Return why a model cannot learn the attention of its teacher, as a clause; None = it can, or need not."""
    task, match = work.task, getattr(work.task, "match", "states")
    teacher = task.imitates()
    if teacher is None or match == "states":
        return None
    own = graph.backbone_at(model, stage, entry).held_mechanisms
    other = graph.backbone_before(teacher, stage, entry).held_mechanisms
    learners = [mechanism for mechanism in own if mechanism.is_learned]
    states = "or set task.match: states"
    if not learners:
        return (
            f"task.match = {match} trains the weights of its attention mechanism, but "
            f"{_named(own) or 'its own attention'} has none. Choose one that has (hedgehog, lolcats), {states}"
        )
    if match == "weights" and (unfit := [mechanism for mechanism in learners if not mechanism.row_stochastic]):
        return (
            f"task.match = weights needs attention weights that add up to 1, but those of {_named(unfit)} do not. "
            "Choose hedgehog or lolcats, or set task.match: outputs"
        )
    if {mechanism.kind for mechanism in other} != {"sdpa"}:
        return (
            f"task.match = {match} learns exact attention, but its teacher {teacher} has "
            f"{_named(other) or 'no mechanism'}. Name a teacher with the mechanism sdpa, {states}"
        )
    if work.recipe is not None and (work.recipe.lora or work.recipe.freezes):
        return (
            f"task.match = {match} trains the weights of its attention mechanism alone, so recipe.lora, freeze_layers "
            f"and freeze_embeddings have no effect. Leave them out, {states}"
        )
    return None


def _named(mechanisms: Sequence[MechanismSettings]) -> str:
    """Return the names of mechanisms, each once."""
    return ", ".join(dict.fromkeys(mechanism.name() for mechanism in mechanisms))


def _differ(found: int | None, expected: int | None) -> bool:
    """Whether two sizes differ; False if one is unknown."""
    return None not in (found, expected) and found != expected


def _weights_before(graph: Graph, model: str, stage: str, entry: str) -> tuple[object, str | None]:
    """Return an identifier of the weights of a model before a stage, and the reason if it has none."""
    parent = graph.parent_stage(model, stage)
    if parent is None:
        start = graph.experiment.models[model].start
        if isinstance(start, ForeignStart):
            return start, None
        return (
            start,
            f"has random weights before {stage}. Name one that passes an earlier stage, or starts from a model",
        )
    before = graph.parent_dataset(stage, parent, entry)
    if before is None or not graph.has_runs(model, parent, before):
        return None, f"has no run of {parent} for {entry}. Name one that has"
    if missing := graph.work(model, parent, before).no_model_reason:
        return None, f"comes from {parent}, which {missing}. Name another model"
    return (parent, before, graph.owner(model, parent, before)), None


RELATIONS = (
    _teachers_fit,
    _imitated_models_fit,
)
