"""What is compared of all that the full grid makes, in the working folder: settings, and digests of code.

As a program, it prints both as JSON: for code that is edited, and executed.
"""

import json

from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import load_study, read_layers
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.digests import code_digest


def compared_of_runs(plan):
    """Return the settings of every run, and the digest of its code."""
    return {"/".join(map(str, run.id)): [run.settings, plan.code(run)] for run in plan.runs}


def compared_of_others(plan):
    """Return the same of what prepares data, and of tables and figures."""
    found = {
        f"prepare {name}": [dataset.preparation.model_dump_json(), code_digest("scripts/prepare_dataset.py")]
        for name, dataset in plan.experiment.datasets.items()
    }
    for axis, noun, results in ((TABLES, "table", plan.report.tables), (FIGURES, "figure", plan.report.figures)):
        for name, result in results.items():
            found[f"{noun} {name}"] = [json.dumps(result), plan.report.code(axis, result)]
    return found


def grid():
    """Return the plan of the full grid."""
    return Plan(load_study(read_layers(["config/config.yaml"])))


if __name__ == "__main__":
    print(json.dumps(compared_of_runs(grid())))
