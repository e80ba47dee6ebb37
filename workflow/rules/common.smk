"""The checked study and what the rules share. No rule lives here."""

import os
import shlex
import subprocess
import sys
from datetime import timedelta
from functools import partial

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

ROOT = str(Path(workflow.basedir).parent)
sys.path.insert(0, ROOT)

from lib.core.attempts import sweep
from lib.study.configuration import load_study, read_layers
from lib.core.errors import ProjectError
from lib.core.identity import RunId
from lib.workflow.digests import code_digest
from lib.workflow.ending import end_without_deadlock
from lib.workflow.kept_code import keep_code
from lib.workflow.known_states import recognise_states
from lib.study.graph import LENGTH
from lib.study.runs import as_json
from lib.workflow.plan import SPLITS, Plan
from lib.workflow.preloaded import SOCKET, through_server

try:
    # Not Snakemake's own merge of the files, which knows no `extends` and does not say which file a key stands in.
    layers = read_layers(workflow.config_settings.configfiles or ["config/config.yaml"])
    if workflow.config_settings.config:
        layers.append(("--config", dict(workflow.config_settings.config)))
    plan = Plan(load_study(layers))
    plan.check()
except ProjectError as error:
    raise WorkflowError(str(error))
config.clear()
config.update(plan.study.model_dump(mode="json"))  # for captions

# Not a parameter of any rule: how a training is executed makes no run stale.
EXECUTION = plan.execution
DEVICE = plan.study.execution.training.device
JOB = plan.study.execution.job
TEXT_MEMORY = 60
"""What TF-IDF takes in memory, times the size of its texts as Parquet; 42 to 49 were measured on reviews and papers."""

if JOB.container:

    container: JOB.container


# Programs run under the interpreter that runs Snakemake, with the code of this checkout, whatever the user's environment.
PYTHON = "python" if DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method else sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([ROOT, *os.environ.get("PYTHONPATH", ROOT).split(os.pathsep)]))
# glibc gives freed memory back to the system again and again, and training takes it anew at every step. These are the
# values that glibc comes to by itself once a program has freed 32 MiB in one piece; other C libraries ignore them.
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(32 * 2**20))
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(64 * 2**20))
# Threads that wait for each other spin for milliseconds before they sleep. Where other programs want the cores, they burn
# the time of the thread that they wait for; so they spin for some microseconds only. GNU's OpenMP reads this, torch uses
# it.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
# A program takes the place of its shell, so that Slurm's warnings reach it, and not a shell that dies of them.
PREFIX = "set -euo pipefail; exec"
shell.prefix(PREFIX)

RUN = RunId("{place}", "", "", "{seed}")
"""Pattern of a run's paths: `place` holds stage, model, dataset and, where the stage has some, variant."""


def share_process():
    """Let the programs of this call share one started process, which ends when this one does."""
    if SOCKET not in os.environ:
        tell = ["sh", "-c", f"echo ${SOCKET}; read _"]  # until the pipe is closed
        server = subprocess.Popen(
            [sys.executable, "scripts/preloaded.py", *tell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        os.environ[SOCKET] = server.stdout.readline().strip()
    shell.prefix(f"{PREFIX} {shlex.join(through_server([]))}")


def growing(amount):
    """Return a resource of which a second attempt gets twice `amount`, a third one three times."""
    return lambda wildcards, attempt: attempt * amount


def gpus(number=lambda wildcards: JOB.gpu):
    """Return the resource that asks for `number` GPUs, as the cluster counts them."""
    if JOB.gres and JOB.gpu:
        return {"gres": lambda wildcards: f"{JOB.gres}:{number(wildcards)}" if number(wildcards) else ""}
    return {"gpu": number}


def names(*collections):
    """Return the pattern of the names in `collections`, which never matches if there are none."""
    found = dict.fromkeys(name for collection in collections for name in collection)
    return "|".join(re.escape(name) for name in found) or "(?!)"


def optional(option, paths):
    """Return `option` with its paths, as the shell reads them, or nothing if there are none."""
    return [option, *map(shlex.quote, paths)] if paths else []


wildcard_constraints:
    corpus=names(plan.corpora.names),
    tokenizer=names(plan.experiment.tokenizers),
    split="|".join(SPLITS),
    place=r".+",
    seed=r"\d+",
    shard=r"\d{5}",
