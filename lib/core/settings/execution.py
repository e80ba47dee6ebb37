"""Settings that say how the work is done and not what comes out of it: no run becomes stale by them."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from lib.core.settings import Section


class Training(Section):
    """How one training is executed."""

    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="`auto` takes a GPU if there is one.")
    micro_batch_tokens: PositiveInt = Field(
        32_768,
        description="Tokens, padding included, that a device takes at once; a batch above that is accumulated in "
        "micro-batches of equal size.",
    )
    workers: NonNegativeInt = Field(0, description="Processes that prepare batches; 0 = the training process itself.")
    checkpoint_minutes: PositiveFloat = Field(
        20.0, description="Minutes between working checkpoints, besides the one at each epoch's end."
    )
    report_to: list[Literal["tensorboard", "wandb"]] = Field(
        default_factory=list, description="Trackers besides the CSV, which is always written."
    )
    run_name: str | None = Field(
        None, description="Name of the run in the trackers; null = `<stage>/<model>/<dataset>/seed-<seed>`."
    )
    wandb_entity: str | None = Field(None, description="Weights & Biases team.")
    wandb_project: str = Field("attention-grid", description="Weights & Biases project.")


class Job(Section):
    """What one training job asks of a machine."""

    gpu: NonNegativeInt = Field(1, description="GPUs.")
    cpus_per_task: PositiveInt = Field(4, description="CPU cores, also the threads of a local job.")
    mem_mb: PositiveInt = Field(32_000, description="Memory in MB.")
    runtime_scale: PositiveFloat = Field(1.0, description="Factor on the estimated minutes; raise it for slower GPUs.")


class Execution(Section):
    """Everything about how, nothing about what."""

    results: str = Field("results", description="Folder of everything produced; one per study.")
    resources: str = Field("resources", description="Folder of everything downloaded; studies share it.")
    training: Training = Field(default_factory=Training, description="How one training is executed.")
    job: Job = Field(default_factory=Job, description="What one training job asks of a machine.")
