"""Settings that say how the work is done and not what comes out of it: no run becomes stale by them."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from lib.attention.parameters import Kernels
from lib.core.sections import Folder, Section, check


class Training(Section):
    """How one training is executed."""

    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="`auto` takes a GPU if there is one.")
    micro_batch_tokens: PositiveInt = Field(
        32_768,
        description="Tokens, padding included, that a device takes at once; a batch above that is accumulated in "
        "micro-batches of equal size.",
    )
    auto_micro_batch: bool = Field(
        False,
        description="Whether a training halves the documents that it takes at once where memory does not suffice, and "
        "goes on from its last checkpoint; on one device.",
    )
    kernels: Kernels = Field(
        "auto",
        description="What attention computes with: `torch`, torch's operations; `triton`, the mechanism's own kernels "
        "for a GPU if it has some; `auto`, the faster ones as measured: kernels on a GPU (Ampere or later) in bf16 and "
        "fp16, otherwise `torch`.",
    )
    deterministic: bool = Field(
        False,
        description="Whether exact attention repeats bit for bit on a GPU, too, as everything else does. Its fastest "
        "kernels do not: their gradients differ in the last digits from run to run. The others take 1.5 times as long "
        "at 512 tokens, with padding 2.5 times, and far more at greater lengths (docs/gpu.md).",
    )
    workers: NonNegativeInt = Field(0, description="Processes that prepare batches; 0 = the training process itself.")
    checkpoint_minutes: PositiveFloat = Field(
        10.0, description="Minutes between working checkpoints, besides the one at each epoch's end."
    )
    report_to: list[Literal["tensorboard", "wandb"]] = Field(
        default_factory=list,
        description="Trackers besides the CSV, which is always written. Their files lie in the run's working folder "
        "until it has finished, then beside its results.",
    )
    run_name: str = Field(
        "{stage}/{model}/{dataset}/seed-{seed}",
        description="Name of a run in the trackers; `{stage}`, `{model}`, `{dataset}` and `{seed}` stand for its own.",
    )
    wandb_entity: str | None = Field(None, description="Weights & Biases team.")
    wandb_project: str = Field("attention-grid", description="Weights & Biases project.")

    @check
    def _run_name_has_known_places(self) -> Iterator[str]:
        try:
            self.run_name.format(stage="", model="", dataset="", seed=0)
        except (IndexError, KeyError, ValueError) as error:
            yield (
                f"run_name: '{self.run_name}' cannot be filled in ({error!r}). Expected a text in which only "
                "{stage}, {model}, {dataset} and {seed} stand in braces"
            )


class Job(Section):
    """What one training job asks of a machine; with several `gpus_per_run`, each of its processes asks for as much."""

    gpu: int = Field(1, ge=0, le=1, description="GPUs, 1 at most: several take `gpus_per_run`; 0 = it runs on a CPU.")
    gres: str | None = Field(
        None,
        pattern=r"^\w+(:[\w.]+)?$",
        description="Name by which a cluster that does not know `--gpus` counts GPUs, such as `gpu` or `gpu:a100`; "
        "they are asked for by `--gres` then.",
    )
    container: str | None = Field(
        None,
        description="Image that programs run in if Snakemake is told `--sdm apptainer`: a `.sif` file, or an address "
        "such as `docker://...`.",
    )
    cpus_per_task: PositiveInt = Field(4, description="CPU cores, also the threads of a local job.")
    mem_mb: PositiveInt = Field(32_000, description="Memory in MB.")
    runtime_scale: PositiveFloat = Field(1.0, description="Factor on the estimated minutes; raise it for slower GPUs.")


class Execution(Section):
    """Everything about how, nothing about what."""

    results: Folder = Field("results", description="Folder of everything produced; one per study.")
    resources: Folder = Field("resources", description="Folder of everything downloaded; studies share it.")
    runs: Literal["made", "imported"] = Field(
        "made",
        description="`imported`: nothing is trained or evaluated; `scripts/import_runs.py` has written the records of "
        "other people's runs to the folder of results, and tables and figures are made from them.",
    )
    gpus_per_run: PositiveInt = Field(
        1,
        description="GPUs that share one training: each has a process of its own, which takes its part of every batch. "
        "The recipe's `batch_size` stays that of all together. Without GPUs, as many processes share the CPU.",
    )
    training: Training = Field(default_factory=Training, description="How one training is executed.")
    job: Job = Field(default_factory=Job, description="What one training job asks of a machine.")
