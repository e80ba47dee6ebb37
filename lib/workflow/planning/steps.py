"""What Snakemake would make for some targets, asked of Snakemake itself. Makes nothing."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from snakemake.api import SnakemakeApi, resolve_snakefile
from snakemake.exceptions import RuleException, WorkflowError
from snakemake.settings import types as settings

from lib.core.errors import ConfigError
from lib.study.configuration import load_study, read_layers

SNAKEFILE = Path(__file__).parents[3] / "workflow" / "Snakefile"

Workflow = Any  # Snakemake has no types, and its interface ends before what is asked here
Job = Any

ANY_SIZE = 10**12
"""Files up to this number of bytes are compared by their content, as in the workflow's own profile."""


@contextlib.contextmanager
def workflow_with_plan(configfiles: Sequence[str], targets: Sequence[str]) -> Iterator[Workflow]:
    """Yield Snakemake's workflow of a study with its graph of jobs; each job to run knows its reason.

    Args:
        configfiles: of the study, as with snakemake.
        targets: files or rules; none = all results.

    Raises:
        ConfigError: the study, a target or an input does not allow a plan.
    """
    with SnakemakeApi(settings.OutputSettings(log_level_override=logging.WARNING, enable_file_logging=False)) as api:
        try:
            container = load_study(read_layers(configfiles)).execution.job.container
            methods = {settings.DeploymentMethod.APPTAINER} if container else set()
            asked = api.workflow(
                settings.ResourceSettings(cores=1),
                config_settings=settings.ConfigSettings(configfiles=[Path(path) for path in configfiles]),
                # An image is other software, which makes results stale, if Snakemake runs programs in it.
                deployment_settings=settings.DeploymentSettings(methods),
                # One in this folder, as snakemake finds it, comes first.
                snakefile=resolve_snakefile(None, allow_missing=True) or SNAKEFILE,
            )
            # Interrupted jobs run again, and files of any size are compared, as in the workflow's own profile.
            asked.dag(settings.DAGSettings(frozenset(targets), force_incomplete=True, max_checksum_file_size=ANY_SIZE))
            workflow = asked._workflow
            workflow.execution_settings = settings.ExecutionSettings()
            workflow._prepare_dag(forceall=False, ignore_incomplete=False, lock_warn_only=False)
            workflow._build_dag()
        except (RuleException, WorkflowError) as error:
            raise ConfigError(f"there is no plan for {', '.join(targets) or 'the study'}: {error}") from error
        yield workflow


def in_order(workflow: Workflow) -> list[Job]:
    """Return the jobs that make something, each after those whose results it reads."""
    return [job for level in workflow.dag.toposorted() for job in level if job.output]


def title(job: Job) -> str:
    """Return what a job is called, without its resources, which a message has in brackets at its end."""
    return job.message.partition(" (")[0] if job.message else f"{job.rule.name} {' '.join(job.output)}"
