"""The validated study and functions shared by all rules. It defines no rules."""

import fcntl
import os
import platform
import shlex
import subprocess
import sys
from functools import partial
from importlib.machinery import PathFinder
from shutil import rmtree
from urllib.parse import unquote
from uuid import uuid4

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod


def root(rules):
    """Return the folder of the project. `rules` is the folder of this file.

    Of a workflow that another one names by its repository, Snakemake reads single files. The programs and their package
    are needed as well, so the commit is cloned once, next to Snakemake's own copy of the repository.
    """
    if rules.is_local:
        return Path(rules.get_path_or_uri(secret_free=True)).parents[1]
    repository = rules.hosted_repo.repo
    commit = repository.commit(rules.ref).hexsha
    place = rules.cache_path / "attention-grid" / commit
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = f"{place}.{uuid4().hex}"
        repository.clone(scratch, no_checkout=True).git.checkout(commit)
        try:
            os.rename(scratch, place)
        except OSError:  # another process was first
            rmtree(scratch)
    return place


ROOT = str(root(workflow.current_basedir))

# Programs find the project's packages by this folder, which comes before all others.
others = [place for place in sys.path if place and os.path.realpath(place) != os.path.realpath(ROOT)]
if hiding := [path for path in Path(ROOT).glob("*.py") if PathFinder.find_spec(path.stem, others)]:
    raise WorkflowError(
        f"{hiding[0]}: hides another module {hiding[0].stem}, which programs import. Rename or move it."
    )
sys.path.insert(0, ROOT)

from lib.study.configuration import extended, load_study, merged, read_arguments, read_layers
from lib.core.errors import ConfigError, ProjectError
from lib.core.extensions import extensions, sources
from lib.core.files import mapping_text
from lib.core.record import RunId
from lib.core.machine import SLOW_BF16, multiplies_bf16
from lib.workflow.planning.corpora import UNSEEDED, download_options
from lib.workflow.planning.first_page import FirstPage
from lib.workflow.staleness.agreement import check_recorded
from lib.workflow.staleness.digests import code_digest
from lib.workflow.staleness.kept_code import keep_code, last_kept
from lib.study.graph import LENGTH
from lib.study.names import rule_name
from lib.study.runs import as_json
from lib.workflow.planning.plan import SPLITS, Plan
from lib.workflow.planning.planned import Planned, Program, planned_code, write_planned
from lib.workflow.preloaded import SOCKET
from lib.workflow.read_files import remove_outdated, states
from lib.workflow.working_folders import Remover, remove_accepted

if provider := workflow.storage_settings.default_storage_provider:
    raise WorkflowError(
        f"--default-storage-provider {provider}: results cannot be in a storage. Expected none: a stopped run resumes "
        "from its working folder, which no rule declares, and programs write whole folders. Use one shared file "
        "system (docs/cluster.md)."
    )

IS_MODULE = not workflow.modifier.is_main_snakefile()
"""Whether another workflow uses this one."""

try:
    if IS_MODULE:
        if workflow.modifier.path_modifier.replace_prefix("results") != "results":
            raise ConfigError(
                "prefix: the module changes paths, which the study's own settings would not know. Expected none; set "
                "execution.results and execution.resources in its config."
            )
        layers = extended("config of the module", config, Path("config"))
        STUDY_NAME = "study of the module"
    else:
        # Not Snakemake's merge of the files, which does not know `extends` and does not say which file a key is in.
        own = Path("config/config.yaml")
        layers = read_layers(workflow.config_settings.configfiles or [own if own.exists() else ROOT / own])
        STUDY_NAME = Path(layers[-1][0]).stem
        # Nor its reading of --config, which reads every number in braces as a string.
        layers += read_arguments(workflow.config_settings.config_args)
    plan = Plan(load_study(layers))
    plan.check()
    check_recorded(plan)
except ProjectError as error:
    raise WorkflowError(str(error))
first_page = FirstPage(plan.report, STUDY_NAME)
# For captions, which call the two functions when a report is made.
config = plan.study.model_dump(mode="json") | {"opening": first_page.opening, "facts": first_page.facts}
JOB = plan.study.execution.job
READ = {}
"""States of the files that no job makes, when the call began."""
TEXT_MEMORY = 60
"""Memory of TF-IDF, as a multiple of the size of its texts as Parquet; 42 to 49 were measured on reviews and papers."""

if JOB.container:

    container: JOB.container


# Programs run under the interpreter that runs Snakemake, with the code of this checkout, in any user environment.
PYTHON = "python" if DeploymentMethod.APPTAINER in workflow.deployment_settings.deployment_method else sys.executable
FOLDERS = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))  # an empty one is the working folder
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([ROOT, *FOLDERS]))
# Else `python -m`, as on a node, takes modules from the working folder, also one that is called as one of Python's own.
if not IS_MODULE:
    os.environ["PYTHONSAFEPATH"] = "1"
# glibc returns freed memory to the system, and training allocates it again at every step. These are the values that
# glibc chooses by itself once a program has freed 32 MiB in one piece; other C libraries ignore them.
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(32 * 2**20))
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(64 * 2**20))
# Waiting threads spin for milliseconds before they sleep. If other programs need the cores, they use up the time of the
# thread that they wait for; so here they spin for some microseconds only. GNU's OpenMP, which torch uses, reads this.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")


class Untracked:
    """A parameter that makes no result stale: Snakemake compares only parameters of built-in types."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


def path_of(name):
    """Return the path of a program, whose first part is its package: `name` is below `scripts`, or a path itself."""
    return f"{name}.py" if os.path.dirname(name) else f"scripts/{name}.py"


def command(name, digest=None):
    """Return the words that start a program; it stops if its code differs from the digest."""
    package, *place = path_of(name).split("/")
    words = [PYTHON, str(sources()[package].joinpath(*place))]
    if name == "train" and (processes := plan.study.execution.gpus_per_run) > 1:
        # After a signal, processes have the two minutes that Slurm gives them to write a checkpoint.
        shared = [
            "-P",
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--local-addr",
            "localhost",
            "--shutdown-timeout",
            "110",
        ]
        # The last word keeps torchrun from reading options of the program as abbreviations of its own.
        words[1:1] = [*shared, "--nproc-per-node", str(processes), "--"]
    # The code of a module is not kept: its `onstart` belongs to the other workflow.
    planned = digest is not None and not IS_MODULE
    if planned and not workflow.is_main_process:  # a job on a node has read the code again
        digest = last_kept(plan.paths.code, digest)
    code = ["--code", plan.paths.kept_code(digest)] if planned else []
    # It replaces its shell, so that Slurm's warning signals reach it instead of ending the shell.
    return f"exec {shlex.join([PYTHON, '-P', '-m', 'lib.workflow.start', *code, *words])}"


def program(name, *modules):
    """Return the parameter of a program that imports `modules` by name; a change of its code makes results stale."""
    return coded(name, code_digest, path_of(name), *modules)


def coded(name, digest, *arguments):
    """Return the parameter of a program: the digest of its code, by a function that is called for planned jobs only."""
    return lambda wildcards: Program(digest(*arguments), partial(command, name))


def constant(value):
    """Return a parameter without wildcards; Snakemake would convert a plain value to text."""
    return lambda wildcards: value


def untracked_program(name):
    """Return the parameter of a program whose code is not compared."""
    return Untracked(command(name))


def handed(text, suffix="json"):
    """Return the parameter of a file of the plan with this text."""
    return Planned(text, plan.paths.planned, suffix, writes_itself=IS_MODULE)


def planned(value):
    """Return the parameter of settings that a program reads from a file of the plan."""
    return handed(as_json(value))


def listed(words):
    """Return the parameter of arguments, a line each, that a program reads from a file of the plan as `@FILE`."""
    return handed("\n".join(map(str, words)), "txt")


EXECUTION = Untracked(as_json(plan.study.execution.training.model_dump(mode="json")))
DEVICE = Untracked(plan.study.execution.training.device)
WORK = Untracked(plan.paths.work)

RUN = RunId("{place}", "", "", "{seed}")
"""Pattern of a run's paths: `place` holds stage, model, dataset and, where the stage has some, variant."""


def share_process():
    """Start a process that the programs of this call share; it ends with this process."""
    tell = ["sh", "-c", f"echo ${SOCKET}; read _"]  # until the pipe is closed
    server = subprocess.Popen(
        [sys.executable, f"{ROOT}/scripts/preloaded.py", *tell],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if address := server.stdout.readline().strip():
        os.environ[SOCKET] = address
    else:
        logger.warning("No process could be started for programs to share. Each runs in its own, which takes longer.")


def require_unchanged():
    """Refuse what was made of files that changed while this call ran."""
    if changed := remove_outdated(workflow.dag, READ):
        raise WorkflowError(
            f"{', '.join(changed)}: changed while this call ran, so that nobody knows which content was read. What was "
            "made of it directly was removed; run the same command again."
        )


def lock_results():
    """Refuse to work on results that another call works on, from any folder; the lock ends with this process."""
    global LOCK
    os.makedirs(plan.paths.results, exist_ok=True)
    LOCK = open(f"{plan.paths.results}/.lock", "a+")
    try:
        fcntl.flock(LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        LOCK.seek(0)
        raise WorkflowError(f"{plan.paths.results}: {LOCK.read()} works on these results. Wait for its end.")
    except OSError:  # a file system without locks
        return
    LOCK.truncate(0)
    LOCK.write(f"snakemake in {os.getcwd()} (process {os.getpid()} on {platform.node()})")
    LOCK.flush()


def warn_of_slow_arithmetic(jobs):
    """Warn if runs among `jobs`, on this machine's CPU, compute in bf16 without instructions for it."""
    in_bf16 = plan.experiment.precision == "bf16" and any(run.max_tokens is not None for run in plan.needed())
    on_cpu = plan.study.execution.training.device == "cpu" and any(job.rule.name == "run" for job in jobs)
    if in_bf16 and on_cpu and multiplies_bf16() is False:
        logger.warning(SLOW_BF16)


def hand_over_study():
    """Give jobs that read the study again a copy of its current content, in case its files change."""
    if not IS_MODULE:
        study = handed(mapping_text(merged(layers)), "yaml")
        study.write()
        workflow.config_settings.configfiles = [Path(study.path).absolute()]


def scaled_by_attempt(amount):
    """Return a resource that is `amount` times the number of the attempt."""
    return lambda wildcards, attempt: attempt * amount


def gpus(number=lambda wildcards: JOB.gpu):
    """Return the resource that asks for `number` GPUs, as the cluster counts them."""
    if JOB.gres and JOB.gpu:
        return {"gres": lambda wildcards: f"{JOB.gres}:{number(wildcards)}" if number(wildcards) else ""}
    return {"gpu": number}


def names(*collections):
    """Return a pattern that matches the names in `collections`; without names it never matches."""
    found = dict.fromkeys(name for collection in collections for name in collection)
    return "|".join(re.escape(name) for name in found) or "(?!)"


def caption(kind, place="../report"):
    """Return the caption of a kind of result: an extension's own, or that in `place`."""
    own = (each.folder / "report" / f"{kind}.rst" for each in extensions())
    return next((str(file) for file in own if file.is_file()), f"{place}/{kind}.rst")


def optional(option, paths):
    """Return `option` with its paths, quoted for the shell, or nothing if there are none."""
    return [option, *map(shlex.quote, paths)] if paths else []


wildcard_constraints:
    corpus=names(plan.corpora.names),
    tokenizer=names(plan.experiment.tokenizers),
    vectors=names(plan.experiment.word_vectors),
    split="|".join(SPLITS),
    place=r".+",
    seed=r"\d+",
    shard=r"\d{5}",
    repository=r"[^/]+/[^/]+",
    revision=r"[^/]+",
    address=r"[0-9a-f]{12}/[^/]+",
