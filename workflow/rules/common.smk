"""The checked configuration and what the rules share. No rule lives here."""

import sys

import yaml
from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

sys.path.insert(0, str(Path(workflow.basedir).parent))

from lib.core.errors import ProjectError
from lib.core.settings.study import load_study
from lib.workflow.digests import code_digest
from lib.workflow.plan import SPLITS, WIKIPEDIA, Plan, as_json

# The full grid first and the command line's files laid over it: a `configfile:` would do the same, but put the keys
# of the overlay first, and tables follow the order of models and datasets.
values = yaml.safe_load(Path("config/config.yaml").read_text())
update_config(values, config)
config.update(values)

try:
    plan = Plan(load_study(values))
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
