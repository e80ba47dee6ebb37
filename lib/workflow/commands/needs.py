"""What a study asks for before anything ran: time and memory of its jobs, downloads and disk, each as it is known."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pandas as pd

from lib.backbones.settings import VOCABULARY
from lib.core.weights import ForeignStart
from lib.preparing.settings.tokenizer import BYTES, SPECIAL
from lib.study.runs import Run
from lib.workflow.planning.plan import Plan
from lib.workflow.planning.resources import ASSUMED_DOCUMENTS
from lib.workflow.planning.steps import Job

DOWNLOADS, OTHERS = "downloads", "data and results"
"""Groups of the jobs that are no runs."""
WEIGHT = 4
"""Bytes of a weight in single precision."""
CHECKPOINT = 3 * WEIGHT
"""Bytes per weight of a checkpoint: the weight and AdamW's two moments."""
COUNTED = f"extrapolated: {WEIGHT} bytes per weight; weights follow from the sizes in the configuration"
OF_CHECKPOINT = f"extrapolated: {CHECKPOINT} bytes per weight, for each run that is training"
LATER = "known once they are downloaded"
FETCHED = {
    "download_url": ("files behind URLs", "measured: the configuration gives sizes"),
    "download_model": ("published models", COUNTED),
    "download_hub": ("files of data sets", LATER),
    "download_tokenizer": ("tokenisers", LATER),
    "download_vocabulary": ("vocabularies", LATER),
}
"""What the rules of downloads fetch, and how its size is known."""


def needs_report(plan: Plan, jobs: Collection[Job]) -> str:
    """Return the resources that the jobs of Snakemake's plan ask for, in words."""
    found = pd.DataFrame([_need(plan, job) for job in jobs])
    of_runs = found[found["group"].isin(list(plan.experiment.stages))]
    lines = [
        f"{plan.paths.results}: nothing has run yet. {len(of_runs):,} runs in {len(found):,} jobs.",
        "Hours and memory are limits that jobs ask of a cluster. How much they take is known once some have run.",
        "",
        _line("stage", "jobs", "GPU hours", "CPU hours", "longest job", "memory"),
    ]
    for group in [*plan.experiment.stages, OTHERS, DOWNLOADS]:
        if len(own := found[found["group"] == group]):
            lines.append(_line(group, *_cells(own)))
    lines += [
        _line("all", *_cells(found)),
        "",
        "Hours asked for: by runs on a GPU, 15 minutes and twice the estimate for an A100 "
        f"(execution.job.runtime_scale = {plan.study.execution.job.runtime_scale:g}), which assumes "
        f"{ASSUMED_DOCUMENTS:,} documents of full length until texts are tokenised; by other jobs, a bound.",
    ]
    if unknown := of_runs["minutes"].isna().sum():
        lines.append(f"Unknown (?): {unknown:,} runs on a CPU, until one of the same stage and dataset has finished.")
    return "\n".join([*lines, "", *storage_lines(plan, jobs)])


def _need(plan: Plan, job: Job) -> dict[str, Any]:
    """Return what a job asks for; None = unknown.

    Minutes of a run are known if it reads tokens on a GPU (`Plan.minutes`), and those of other jobs never exceed what
    they ask for. The estimate does not hold for a run on a CPU.
    """
    asked, run = job.resources, _run_of(plan, job)
    number = str(asked.get("gres") or asked.get("gpu") or 0).rpartition(":")[2]
    gpus = int(number) if number.isdigit() else 0
    minutes, mb = asked.get("runtime"), asked.get("mem_mb")
    known = isinstance(minutes, int | float) and (run is None or (run.reads_tokens and gpus > 0))
    return {
        "group": run.id.stage if run else DOWNLOADS if job.rule.name in FETCHED else OTHERS,
        "minutes": float(minutes) if known else None,
        "gpus": gpus,
        "cores": int(asked.get("cpus_per_task", 1)),
        "mb": float(mb) if isinstance(mb, int) else None,
    }


def _cells(needs: pd.DataFrame) -> Iterator[str]:
    """Yield jobs, GPU hours, CPU hours, the longest job and the largest memory; `?` = and some that are unknown."""
    minutes, mb = (pd.to_numeric(needs[name]) for name in ("minutes", "mb"))
    yield f"{len(needs):,}"
    on_gpu = needs["gpus"] > 0
    yield _known(minutes[on_gpu] * needs["gpus"][on_gpu], "sum", "{:,.1f}", " + ?", 60) if on_gpu.any() else "0"
    yield _known(minutes * needs["cores"], "sum", "{:,.1f}", " + ?", 60)
    yield _known(minutes, "max", "{:,.1f} h", " ?", 60)
    yield _known(mb, "max", "{:,.0f} GB", " ?", 1000)


def _known(values: pd.Series, how: str, shown: str, unknown: str, unit: float) -> str:
    if values.isna().all():
        return "unknown"
    return shown.format(values.agg(how) / unit) + unknown * bool(values.isna().any())


def _line(name: str, *cells: str) -> str:
    return f"{name:<24}" + "".join(f"{cell:>15}" for cell in cells)


def storage_lines(plan: Plan, jobs: Collection[Job]) -> Iterator[str]:
    """Yield a table of downloads and disk for the jobs of Snakemake's plan."""
    weights = _published_weights(plan)
    runs = [run for job in jobs if (run := _run_of(plan, job))]
    checkpoint = CHECKPOINT * max((_weights(plan, run) or 0 for run in runs if run.trains), default=0)
    groups: list[tuple[str, list[int | None], str]] = [
        (what, [_fetched_bytes(plan, job, weights) for job in jobs if job.rule.name == rule], how)
        for rule, (what, how) in FETCHED.items()
    ]
    groups.append(("models of the runs", [_kept_bytes(plan, run) for run in runs], COUNTED))
    groups.append(("a checkpoint, at most", [checkpoint] if checkpoint else [], OF_CHECKPOINT))
    yield _line("downloads and disk", "number", "GB") + "  how it is known"
    for what, sizes, how in groups:
        if sizes:
            known = _known(pd.Series(sizes, dtype=float), "sum", "{:,.2f}", " + ?", 1e9)
            yield f"{_line(what, f'{len(sizes):,}', known)}  {how}"
    yield from ("", "Texts and tokens come in addition; their sizes are unknown until they are prepared.")
    if checkpoint:
        yield f"Of vocabularies that are not trained here, {VOCABULARY:,} tokens are assumed."


def _run_of(plan: Plan, job: Job) -> Run | None:
    return plan.run_at(f"{job.wildcards.place}/seed-{job.wildcards.seed}") if job.rule.name == "run" else None


def _fetched_bytes(plan: Plan, job: Job, weights: Mapping[str, int]) -> int | None:
    """Return how many bytes a download has, as far as the configuration tells."""
    if job.rule.name == "download_url":
        return plan.corpora.remote_files[job.wildcards.address].size
    known = job.rule.name == "download_model" and weights.get(job.wildcards.repository)
    return WEIGHT * known if known else None


def _published_weights(plan: Plan) -> dict[str, int]:
    """Return about how many weights each published model has that runs read, by its repository; 0 = unknown."""
    found: dict[str, int] = {}
    for run in plan.runs:
        for source, backbone in [(run.start, run.backbone), *([run.imitated] if run.imitated else [])]:
            if isinstance(source, ForeignStart) and source.repository:
                number = backbone.weights(_vocabulary(plan, run)) or 0
                found[source.repository] = max(number, found.get(source.repository, 0))
    return found


def _kept_bytes(plan: Plan, run: Run) -> int | None:
    """Return the bytes of the models that a finished run keeps; None = unknown."""
    weights, recipe = _weights(plan, run), run.work.recipe
    adapters = recipe is not None and recipe.lora is not None and not recipe.lora.merge
    if weights is None or not run.trains or run.tuning or adapters or run.backbone.quantized:
        return None
    return sum(CHECKPOINT if kept == "state" else WEIGHT for kept in run.work.keep) * weights


def _weights(plan: Plan, run: Run) -> int | None:
    return run.backbone.weights(_vocabulary(plan, run)) if run.reads_tokens else None


def _vocabulary(plan: Plan, run: Run) -> int:
    """Return the tokens of a run's tokeniser, as far as the configuration gives them."""
    settings = plan.experiment.tokenizers[run.tokenizer] if run.tokenizer else None
    if settings and settings.algorithm == "bytes":
        return BYTES + SPECIAL
    return settings.vocab_size if settings and settings.source == "trained" else VOCABULARY
