"""Time and memory that the jobs of a study ask for, its downloads and its disk, each with how it is known."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lib.workflow.commands.storage import run_of, storage_lines
from lib.workflow.planning.plan import Plan
from lib.workflow.planning.resources import ASSUMED_DOCUMENTS
from lib.workflow.planning.steps import Job

DOWNLOADS, OTHERS = "downloads", "data and results"
"""Groups of the jobs that are no runs."""


class Need(NamedTuple):
    """Resources of one job; None = unknown."""

    group: str
    """Stage of a run, or the group of other jobs."""
    minutes: float | None
    gpus: int
    cores: int
    mb: int | None


def needs(plan: Plan, jobs: Iterable[Job]) -> Iterator[Need]:
    """Yield the resources of each job of Snakemake's plan.

    Minutes of a run are known if it reads tokens on a GPU (`Plan.minutes`), and those of other jobs never exceed what
    they ask for. The estimate does not hold for a run on a CPU.
    """
    for job in jobs:
        asked = job.resources
        run = run_of(plan, job)
        number = str(asked.get("gres") or asked.get("gpu") or 0).rpartition(":")[2]
        gpus = int(number) if number.isdigit() else 0
        download = job.rule.name.startswith("download_")
        group = run.id.stage if run else DOWNLOADS if download else OTHERS
        minutes, mb = asked.get("runtime"), asked.get("mem_mb")
        known = isinstance(minutes, int | float) and (run is None or (run.reads_tokens and gpus > 0))
        yield Need(
            group,
            float(minutes) if known else None,
            gpus,
            int(asked.get("cpus_per_task", 1)),
            mb if isinstance(mb, int) else None,
        )


def requirements_report(plan: Plan, jobs: Iterable[Job]) -> str:
    """Return the resources of the jobs of a study, in words."""
    jobs = list(jobs)
    found = list(needs(plan, jobs))
    groups = dict.fromkeys([*plan.experiment.stages, OTHERS, DOWNLOADS])
    runs = sum(need.group in plan.experiment.stages for need in found)
    asked = "Hours and memory are limits that jobs ask of a cluster. How much they take is known once some have run."
    lines = [f"{plan.paths.results}: nothing has run yet. {runs:,} runs in {len(found):,} jobs.", asked, ""]
    lines.append(_line(*_TITLES))
    for group in groups:
        if own := [need for need in found if need.group == group]:
            lines.append(_line(group, *_cells(own)))
    lines.append(_line("all", *_cells(found)))
    return "\n".join([*lines, "", _sources(plan, found), "", *storage_lines(plan, jobs)])


def _line(name: str, *cells: str) -> str:
    return f"{name:<24}" + "".join(f"{cell:>15}" for cell in cells)


_TITLES = ("stage", "jobs", "GPU hours", "CPU hours", "longest job", "memory")


def _cells(needs: list[Need]) -> Iterator[str]:
    """Yield jobs, GPU hours, CPU hours, the longest job and the largest memory; `+ ?` = and some that are unknown."""
    minutes, mb = [need.minutes for need in needs], [need.mb for need in needs]
    on_gpu = [need for need in needs if need.gpus]
    yield f"{len(needs):,}"
    yield _sum([None if need.minutes is None else need.minutes * need.gpus for need in on_gpu]) if on_gpu else "0"
    yield _sum([None if need.minutes is None else need.minutes * need.cores for need in needs])
    known = [each for each in minutes if each is not None]
    yield f"{max(known) / 60:,.1f} h{' ?' * (None in minutes)}" if known else "unknown"
    memory = [each for each in mb if each is not None]
    yield f"{max(memory) / 1000:,.0f} GB{' ?' * (None in mb)}" if memory else "unknown"


def _sum(minutes: list[float | None]) -> str:
    """Return the hours; whole minutes add up to the same in every order of the jobs."""
    known = [each for each in minutes if each is not None]
    return f"{sum(known) / 60:,.1f}{' + ?' * (None in minutes)}" if known else "unknown"


def _sources(plan: Plan, found: list[Need]) -> str:
    lines = [
        "Hours asked for: by runs on a GPU, 15 minutes and twice the estimate for an A100 "
        f"(execution.job.runtime_scale = {plan.study.execution.job.runtime_scale:g}), which assumes "
        f"{ASSUMED_DOCUMENTS:,} documents of full length until texts are tokenised; by other jobs, a bound."
    ]
    if unknown := sum(need.minutes is None and need.group in plan.experiment.stages for need in found):
        lines.append(
            f"Unknown (?): {unknown:,} runs on a CPU. This command estimates them from the first that finishes of the "
            "same stage and dataset."
        )
    return "\n".join(lines)
