"""Settings of how the work is done. They change no result, so they make no run stale."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lib.attention.settings import Kernels
from lib.core.settings import FEW, BaseSettings, Few, FewOrZero, Folder, PositiveFloat, PositiveInt, check

ROOT = Path(__file__).resolve().parents[2]
OWN = {"benchmarks", "config", "docs", "lib", "scripts", "slurm", "studies", "tests", "workflow"}
"""Folders of the project that hold no results, besides hidden ones."""


class Training(BaseSettings):
    """How one training is executed."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes a GPU if there is one."""
    micro_batch_tokens: PositiveInt = 32_768
    """Maximum number of tokens that a device processes at once, padding included; a larger batch is accumulated in
    micro-batches, each of as many documents as fit."""
    auto_micro_batch: bool = False
    """Whether a run that runs out of memory halves the number of tokens processed at once, and a training continues
    from its last checkpoint; on one device only."""
    kernels: Kernels = "auto"
    """How attention and state spaces compute: `torch`, with torch's operations; `triton`, with their own GPU kernels if
    there are some; `auto`, with the way that was measured as faster: kernels on a GPU (Ampere or later) in bf16 and
    fp16, otherwise `torch`. With `auto`, oneDNN computes linear layers in fp32 on a CPU with AVX-512 that is not
    Intel's, where torch's products take about twice as long."""
    compile: bool = False
    """Whether `torch.compile` makes a few large kernels of each block of a model, and a GPU repeats short steps as CUDA
    graphs. A step of 64 x 512 tokens then takes about half the time, after a minute of compiling (benchmarks/gpu.md);
    the last digits differ. Needs the package triton on a GPU, a C++ compiler on a CPU."""
    deterministic: bool = False
    """Whether exact attention repeats bit for bit on a GPU, too, as everything else does. Its fastest kernels do not:
    their gradients differ in the last digits from run to run. The others take 1.5 times as long at 512 tokens, with
    padding 2.5 times, and far more at greater lengths (benchmarks/gpu.md)."""
    workers: FewOrZero = 0
    """Processes that prepare batches; 0 = the training process itself."""
    checkpoint_minutes: PositiveFloat = 10.0
    """Minutes between working checkpoints, besides the one at each epoch's end."""
    report_to: list[Literal["tensorboard", "wandb"]] = Field(default_factory=list)
    """Trackers in addition to the CSV, which is always written. Their files are in the run's working folder until it
    has finished, then in its results."""
    run_name: Annotated[str, Field(max_length=FEW)] = "{stage}/{model}/{dataset}/seed-{seed}"
    """Name of a run in the trackers; `{stage}`, `{model}`, `{dataset}` and `{seed}` are replaced by those of the run.
    """
    wandb_entity: str | None = None
    """Weights & Biases team."""
    wandb_project: str = "attention-grid"
    """Weights & Biases project."""

    @check
    def _run_name_has_known_places(self) -> Iterator[str]:
        rest = re.sub(r"\{(stage|model|dataset|seed)\}", "", self.run_name)
        if "{" in rest or "}" in rest:
            yield f"run_name: '{self.run_name}' cannot be filled in. Use {{stage}}, {{model}}, {{dataset}}, {{seed}}"


class Job(BaseSettings):
    """Resources of one training job; with several `gpus_per_run`, each of its processes gets as much."""

    gpu: int = Field(1, ge=0, le=1)
    """GPUs: 1, or 0 for a CPU; `gpus_per_run` sets several."""
    gres: str | None = Field(None, pattern=r"^\w+(:[\w.]+)?$")
    """Name of GPUs on a cluster that does not know `--gpus`, such as `gpu` or `gpu:a100`; jobs then ask for them by
    `--gres`."""
    container: str | None = None
    """Image that programs run in if Snakemake gets `--sdm apptainer`: a `.sif` file, or an address such as
    `docker://...`."""
    cpus_per_task: Few = 4
    """CPU cores, also the threads of a local job."""
    mem_mb: PositiveInt = 32_000
    """Memory in MB."""
    runtime_scale: PositiveFloat = 1.0
    """Factor on the estimated minutes; raise it for slower GPUs."""


class Execution(BaseSettings):
    """How the study is executed; nothing here changes a result."""

    results: Folder = "results"
    """Folder of all results; one per study."""
    resources: Folder = "resources"
    """Folder of all downloads; studies share it."""
    runs: Literal["made", "imported", "archived"] = "made"
    """`imported`: nothing is trained or evaluated. Tables and figures are made from records of other code, which
    `studies/imported/scripts/import_runs.py` wrote to the folder of results. `archived`: likewise, from what `make
    archive` kept of a study; no raw text has to be there."""
    recorded: list[Folder] = Field(default_factory=list)
    """Folders with records of finished runs, without weights; relative to the working folder or to the project. A run
    that is recorded there is not made, nor its data: tables and figures show the record, whose settings must be those
    of the study (docs/results.md)."""
    gpus_per_run: Few = 1
    """GPUs that share one training: each has its own process, which takes a part of every batch. The recipe's
    `batch_size` counts the documents of all processes. Without GPUs, this many processes share the CPU."""
    training: Training = Field(default_factory=Training)
    """How one training is executed."""
    job: Job = Field(default_factory=Job)
    """Resources of one training job."""

    @check
    def _folders_hold_nothing_else(self) -> Iterator[str]:
        results, resources = (Path(os.path.realpath(folder)) for folder in (self.results, self.resources))
        if results.is_relative_to(resources) or resources.is_relative_to(results):
            yield f"results: '{self.results}' and resources = '{self.resources}' overlap. Name two separate folders"
        for name, folder in (("results", results), ("resources", resources)):
            above = folder.relative_to(ROOT).parts[:1] if folder.is_relative_to(ROOT) else ()
            own = any(part in OWN or part.startswith(".") for part in above)
            if own or ROOT.is_relative_to(folder) or Path.cwd().is_relative_to(folder):
                yield f"{name}: '{getattr(self, name)}' holds the project or a part of it. Name a folder of its own"
            elif any(os.path.lexists(each) and not each.is_dir() for each in (folder, *folder.parents)):
                yield f"{name}: '{getattr(self, name)}' is a file, or below one. Name a folder"
