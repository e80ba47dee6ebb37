"""The checked configuration and what the rules share. No rule lives here."""

import sys

from snakemake.exceptions import WorkflowError

sys.path.insert(0, str(Path(workflow.basedir).parent))

from lib.core.errors import ProjectError
from lib.core.settings.study import load_study
from lib.workflow.digests import code_digest
from lib.workflow.plan import SPLITS, WIKIPEDIA, Plan, as_json

try:
    plan = Plan(load_study(config))
    shards = plan.shards
    for dataset in plan.datasets:
        plan.raw_files(dataset)
except ProjectError as error:
    raise WorkflowError(str(error))

TABLES = ["token_lengths", "pretrain", "tapt", "finetune", "f1"] + [f"baseline_{name}" for name in plan.datasets]
FIGURES = ["f1_time"]

# Not a parameter of any rule: how a training is executed makes no run stale.
EXECUTION = plan.execution
JOB = plan.study.execution.job


wildcard_constraints:
    model="|".join(plan.models + plan.pretrained),
    dataset="|".join(plan.datasets),
    corpus="|".join([WIKIPEDIA, *plan.datasets]),
    split="|".join(SPLITS),
    seed=r"\d+",
    shard=r"\d{5}",


def training_resources(stage):
    """Return the resources of a training rule; a retry gets more time and memory."""

    def runtime(wildcards, attempt):
        return attempt * plan.minutes(stage, wildcards.model, getattr(wildcards, "dataset", WIKIPEDIA))

    def mem_mb(wildcards, attempt):
        return attempt * JOB.mem_mb

    return {"runtime": runtime, "mem_mb": mem_mb, "gpu": JOB.gpu, "cpus_per_task": JOB.cpus_per_task}
