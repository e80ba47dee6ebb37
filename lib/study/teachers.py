"""Check that teachers are trained for the task, and that their states can be imitated."""

from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from lib.attention.settings import MechanismSettings
from lib.core.settings import known
from lib.core.weights import ForeignStart
from lib.study.graph import Graph
from lib.study.places import Place
from lib.study.stages import Work


def teacher_errors(graph: Graph, at: Place) -> Iterator[str]:
    """Yield why a model cannot learn from its teacher at a place, if it has one."""
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
        elif reason := _not_imitated(graph, teacher, at, work) or _not_matched(graph, teacher, at, work):
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


def _not_imitated(graph: Graph, teacher: str, at: Place, work: Work) -> str | None:
    """Return why a model cannot imitate its teacher, which has the weights that it would start the stage with."""
    try:
        other = graph.backbone_before(teacher, at.stage, at.entry)
    except ValidationError as error:
        return f"{teacher} has no backbone before {at.stage}: {error.errors()[0]['msg']}"
    if not work.task.trains(other):
        return f"{teacher} has a backbone of kind {other.kind}, without states to imitate"
    weights, reason = _weights_before(graph, teacher, at)
    if reason:
        return f"{teacher} {reason}"
    if (at.backbone, weights) == (other, _weights_before(graph, at.model, at)[0]):
        return f"{teacher} has the same weights and attention, so there is nothing to learn"
    sizes = {"numbers per state": (other.width(), at.backbone.width())}
    if getattr(work.task, "layers", None) == "all":
        sizes["layers"] = other.blocks(), at.backbone.blocks()
    for what, (found, expected) in sizes.items():
        if None not in (found, expected) and found != expected:
            return f"{teacher} has {found} {what} and not {expected}"
    _, before = graph.parent(teacher, at.stage, at.entry) or (None, at.entry)
    reads, named = graph.tokenizer_of(teacher, before), graph.tokenizer_of(at.model, at.entry)
    if reads != named:
        return f"{teacher} reads by the tokeniser {reads} and not by {named}. Let both have the same"
    reach, tokens = other.longest(), graph.max_tokens(at.model, at.entry)
    if reach is not None and tokens > reach:
        return f"{teacher} reads {reach} tokens at most, but {at.entry} has max_tokens = {tokens}"
    return None


def _not_matched(graph: Graph, teacher: str, at: Place, work: Work) -> str | None:
    """Return why a model cannot learn the attention of its teacher; None = it can, or need not."""
    match = getattr(work.task, "match", "states")
    if match == "states":
        return None
    own, other = at.backbone.held_mechanisms, graph.backbone_before(teacher, at.stage, at.entry).held_mechanisms
    learners = [mechanism for mechanism in own if mechanism.is_learned]
    if not learners:
        return f"match = {match} needs a mechanism with weights such as hedgehog, but {_named(own) or 'none'} is here"
    if match == "weights" and (unfit := [each for each in learners if not each.row_stochastic]):
        return f"match = weights needs attention weights that add up to 1, but those of {_named(unfit)} do not"
    if {mechanism.kind for mechanism in other} != {"sdpa"}:
        return f"match = {match} learns exact attention (sdpa), but {teacher} has {_named(other) or 'no mechanism'}"
    return None


def _named(mechanisms: Sequence[MechanismSettings]) -> str:
    """Return the names of mechanisms, each once."""
    return ", ".join(dict.fromkeys(mechanism.name() for mechanism in mechanisms))


def _weights_before(graph: Graph, model: str, at: Place) -> tuple[object, str | None]:
    """Return an identifier of the weights of a model before a stage, and the reason if it has none."""
    parent = graph.parent_stage(model, at.stage)
    if parent is None:
        start = graph.experiment.models[model].start
        return start, None if isinstance(start, ForeignStart) else f"has random weights before {at.stage}"
    before = graph.parent_dataset(at.stage, parent, at.entry)
    if before is None or not graph.has_runs(model, parent, before):
        return None, f"has no run of {parent} for {at.entry}"
    reason = graph.work(model, parent, before).no_model_reason
    return (parent, before, graph.owner(model, parent, before)), reason and f"comes from {parent}, which {reason}"
