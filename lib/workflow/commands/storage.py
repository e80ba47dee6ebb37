"""Gigabytes that a study downloads and keeps on disk, before anything ran, each with how it is known."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator

from lib.backbones.settings import VOCABULARY, BackboneSettings
from lib.core.weights import ForeignStart
from lib.preparing.settings.tokenizer import BYTES, SPECIAL
from lib.study.runs import Run
from lib.workflow.planning.plan import Plan
from lib.workflow.planning.steps import Job

WEIGHT = 4
"""Bytes of a weight in single precision."""

CHECKPOINT = 3 * WEIGHT
"""Bytes per weight of a checkpoint: the weight and AdamW's two moments."""

_GIVEN = "measured: the configuration gives their sizes"
_COUNTED = f"extrapolated: {WEIGHT} bytes per weight; weights follow from the sizes in the configuration"
_KINDS = {
    "download_url": ("files behind URLs", "other files behind URLs"),
    "download_model": ("published models", "other published models"),
    "download_hub": ("files of data sets", "files of data sets"),
    "download_tokenizer": ("tokenisers", "tokenisers"),
    "download_vocabulary": ("vocabularies", "vocabularies"),
}
"""Downloads of the jobs of a rule: those of a known size, and the others."""


def run_of(plan: Plan, job: Job) -> Run | None:
    """Return the run that a job makes, if it makes one."""
    return plan.run_at(f"{job.wildcards.place}/seed-{job.wildcards.seed}") if job.rule.name == "run" else None


def storage_lines(plan: Plan, jobs: Collection[Job]) -> Iterator[str]:
    """Yield a table of downloads and disk.

    Args:
        plan: of the study.
        jobs: those of Snakemake's plan.
    """
    yield f"{'downloads and disk':<24}{'number':>15}{'GB':>15}  how it is known"
    yield from _downloads(plan, jobs)
    runs = [run for job in jobs if (run := run_of(plan, job))]
    kept = [_kept_bytes(plan, run) for run in runs]
    known = [each for each in kept if each is not None]
    if known:
        yield _line("models of the runs", len(known), sum(known), _COUNTED)
    trained = [_weights(plan, run) or 0 for run in runs if run.trains]
    if largest := CHECKPOINT * max(trained, default=0):
        how = f"extrapolated: {CHECKPOINT} bytes per weight, for each run that is training"
        yield _line("a checkpoint, at most", 1, largest, how)
    if number := len(kept) - len(known):
        yield _line("models of other runs", number, None, "unknown until they have run")
    yield _line("texts and tokens", None, None, "unknown until they are prepared")
    if known:
        yield from ("", f"Of vocabularies that are not trained here, {VOCABULARY:,} tokens are assumed.")


def _downloads(plan: Plan, jobs: Iterable[Job]) -> Iterator[str]:
    """Yield a line for each kind of downloads."""
    weights = _published_weights(plan)
    known: dict[str, list[int]] = defaultdict(list)
    unknown: Counter[str] = Counter()
    for job in jobs:
        rule, size = job.rule.name, None
        if rule == "download_url":
            size = plan.corpora.remote_bytes.get(job.wildcards.address)
        elif rule == "download_model" and job.wildcards.repository in weights:
            size = WEIGHT * weights[job.wildcards.repository]
        if size is not None:
            known[rule].append(size)
        elif rule in _KINDS:
            unknown[rule] += 1
    for rule, sizes in known.items():
        yield _line(_KINDS[rule][0], len(sizes), sum(sizes), _COUNTED if rule == "download_model" else _GIVEN)
    for rule, number in unknown.items():
        yield _line(_KINDS[rule][rule in known], number, None, "unknown until they are downloaded")
    if not known and not unknown:
        yield _line("downloads", 0, 0, "measured: no file is missing")


def _line(what: str, number: int | None, size: int | None, how: str) -> str:
    counted = "" if number is None else f"{number:,}"
    return f"{what:<24}{counted:>15}{'unknown' if size is None else _gigabytes(size):>15}  {how}"


def _gigabytes(size: int) -> str:
    """Return a size in GB, with two digits below 0.1."""
    found = size / 1e9
    return f"{found:,.1f}" if found >= 0.1 or not found else f"{found:.2g}"


def _published_weights(plan: Plan) -> dict[str, int]:
    """Return about how many weights each published model has that runs read, by its repository."""
    found: dict[str, int] = {}
    for run in plan.runs:
        sources: list[tuple[object, BackboneSettings]] = [(run.start, run.backbone)]
        if run.imitated:
            sources.append((run.imitated.weights, run.imitated.backbone))
        for source, backbone in sources:
            if isinstance(source, ForeignStart) and source.repository:
                number = backbone.weights(_vocabulary(plan, run))
                if number is not None:
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
