"""Plans of the small study."""

from small_studies import study

from lib.core.record import RunId
from lib.workflow.planning.plan import Plan


def plan(*changes):
    return Plan(study(*changes))


def key(stage, model, dataset="imdb", seed=1):
    return RunId(stage, model, "wikipedia" if stage == "pretrain" else dataset, seed)


def records(made, *stages):
    return [made.paths.record(run.id) for run in made.runs if run.id.stage in stages]


def reported(*changes, **report):
    return Plan(study(*changes, layers=[("report.yaml", {"report": report})]))


def analyses(*changes, **entries):
    return Plan(study(*changes, layers=[("report.yaml", {"report": {"analyses": entries}})]))
