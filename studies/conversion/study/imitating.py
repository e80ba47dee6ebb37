"""Check that a model can imitate the states of its teacher."""

from collections.abc import Sequence

from pydantic import ValidationError

from lib.attention.settings import MechanismSettings
from lib.core.weights import ForeignStart
from lib.study.graph import Graph
from lib.study.places import Place
from lib.study.stages import Work


def not_imitated(graph: Graph, teacher: str, at: Place, work: Work) -> str | None:
    """Return why a model cannot learn the states, or the attention, of its teacher; None = it can."""
    return _no_states(graph, teacher, at, work) or _no_match(graph, teacher, at, work)


def _no_states(graph: Graph, teacher: str, at: Place, work: Work) -> str | None:
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


def _no_match(graph: Graph, teacher: str, at: Place, work: Work) -> str | None:
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
