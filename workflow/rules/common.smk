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
from lib.core.preloaded import SOCKET
from lib.workflow.digests import code_digest
from lib.workflow.ending import end_without_deadlock
from lib.workflow.kept_code import keep_code
from lib.workflow.known_states import recognise_states
from lib.workflow.plan import SPLITS, Key, Plan, as_json

try:
    # Not Snakemake's own merge of the files, which knows no `extends` and does not say which file a key stands in.
    layers = read_layers(workflow.config_settings.configfiles or ["config/config.yaml"])
    if workflow.config_settings.config:
        layers.append(("--config", dict(workflow.config_settings.config)))
    plan = Plan(load_study(layers))
    for name in plan.corpora:
        plan.raw_files(name)
    for name in plan.experiment.datasets:
        plan.fold_file(name)
    for name in plan.augmentations:
        plan.augmentation_sources(name)
    plan.check_imported()
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
# A program takes the place of its shell, so that Slurm's warnings reach it, and not a shell that dies of them.
shell.prefix("set -euo pipefail; exec")

RUN = Key("{stage}", "{model}", "{dataset}", "{seed}")
"""Pattern of a run's places; the wildcard `dataset` holds the variant as well, where a stage has some."""


def share_process():
    """Let the programs of this call share one started process, which ends when this one does."""
    if SOCKET not in os.environ:
        tell = ["sh", "-c", f"echo ${SOCKET}; read _"]  # until the pipe is closed
        server = subprocess.Popen(
            [sys.executable, "scripts/preloaded.py", *tell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        os.environ[SOCKET] = server.stdout.readline().strip()


def growing(amount):
    """Return a resource of which a second attempt gets twice `amount`, a third one three times."""
    return lambda wildcards, attempt: attempt * amount


def gpus(number=JOB.gpu, needed=lambda wildcards: True):
    """Return the resource that asks for `number` GPUs, where they are `needed`, as the cluster counts them."""
    if JOB.gres and number:
        return {"gres": lambda wildcards: f"{JOB.gres}:{number}" if needed(wildcards) else ""}
    return {"gpu": lambda wildcards: number if needed(wildcards) else 0}


def names(*collections):
    """Return the pattern of the names in `collections`, which never matches if there are none."""
    found = dict.fromkeys(name for collection in collections for name in collection)
    return "|".join(re.escape(name) for name in found) or "(?!)"


def key(wildcards):
    """Return the key of the run that the wildcards name."""
    dataset, _, variant = wildcards.dataset.partition("/")
    return Key(wildcards.stage, wildcards.model, dataset, wildcards.seed, variant)


def only(runs):
    """Return constraints of wildcards by which a rule makes `runs` and no others.

    The stage looks ahead, since a stage, a model and a dataset that occur in `runs` need not occur together. The names of
    models stand in it once for all places that they share: Snakemake goes through this text for every file.
    """
    places, models = {}, {}
    for run in runs:
        rest = "/".join([run.dataset, *([run.variant] if run.variant else [])])
        places.setdefault(f"{re.escape(run.stage)}/[^/]+/{re.escape(rest)}", {})[run.model] = None
    for place, owners in places.items():
        models.setdefault(names(owners), []).append(place)
    ways = [f"(?=[^/]+/(?:{owners})/)(?:{'|'.join(found)})/seed-" for owners, found in models.items()]
    return {
        "stage": f"(?={'|'.join(ways) or '(?!)'})[^/]+",
        "model": "[^/]+",
        "dataset": "[^/]+(?:/[^/]+)?",
    }


def optional(option, paths):
    """Return `option` with its paths, as the shell reads them, or nothing if there are none."""
    return [option, *map(shlex.quote, paths)] if paths else []


wildcard_constraints:
    corpus=names(plan.corpora),
    tokenizer=names(plan.experiment.tokenizers),
    split="|".join(SPLITS),
    seed=r"\d+",
    shard=r"\d{5}",
