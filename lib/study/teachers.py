"""Check that teachers are trained for the task; an extension checks that their states can be imitated."""

from collections.abc import Iterator

from lib.core.extensions import load, part
from lib.core.settings import known
from lib.study.graph import Graph
from lib.study.places import Place


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
