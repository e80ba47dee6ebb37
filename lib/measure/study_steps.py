"""The stages of a study that are estimated, and the measurements of its models for that.

Steps of classification are measured at all lengths, of masked language modelling at few.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lib.attention.settings import Kernels
from lib.core.errors import ConfigError
from lib.measure.estimates import Machine, ModelSteps
from lib.measure.steps import LENGTHS, SHORT, Steps, StepsCase
from lib.study.graph import Graph


@dataclass(frozen=True)
class Stages:
    """The two stages of a study that own texts pass."""

    adaptation: str
    """Masked language modelling."""
    classification: str
    """Stage that classifies documents; it starts from the adaptation."""


def find_stages(graph: Graph) -> Stages:
    """Return the last stage that trains to classify documents, and the stage of masked language modelling before it.

    Raises:
        ConfigError: the study has no such stages.
    """

    def trains(stage: str, kind: str) -> bool:
        return all(work.recipe and work.task.kind == kind for work in graph.experiment.stages[stage].data.values())

    for stage in reversed(graph.experiment.stages):
        if trains(stage, "sequence_classification"):
            before = [name for name in graph.chain(stage)[1:] if trains(name, "masked_lm")]
            if before:
                return Stages(before[0], stage)
    raise ConfigError(
        "the study has no stage of sequence_classification that starts from one of masked_lm. Expected both, since "
        "they are what is estimated; name another study with --study."
    )


def candidates(graph: Graph, stages: Stages) -> list[str]:
    """Return the models that pass both stages on tokens, in order."""
    both = (stages.adaptation, stages.classification)
    return [
        model
        for model in graph.experiment.models
        if set(both) <= set(graph.stages_of(model)) and all(graph.reads_tokens(model, stage, None) for stage in both)
    ]


def model_steps(
    graph: Graph,
    stages: Stages,
    models: Sequence[str],
    machine: Machine,
    measured: Callable[[Mapping[str, StepsCase]], Mapping[str, Steps]],
    *,
    tokenizer: Path,
    longest: int,
    seconds: float,
    kernels: Kernels = "auto",
) -> dict[str, ModelSteps]:
    """Return the cost of the steps of every model.

    Args:
        graph: of the study.
        stages: of the study.
        models: to measure.
        machine: to measure on.
        measured: measures cases, such as `lib.measure.steps.measured_now`.
        tokenizer: folder.
        longest: tokens of the longest document.
        seconds: about as long as it may take, all together.
        kernels: what attention computes with.
    """
    lengths = LENGTHS[: max(len(SHORT), 1 + sum(length < longest for length in LENGTHS))]
    ends = (SHORT[0], SHORT[-1])
    found = measured(
        {
            f"{model} {stage}": StepsCase(
                backbone=graph.backbone_at(model, stage, None),
                task=next(iter(graph.experiment.stages[stage].data.values())).task,
                tokenizer=str(tokenizer),
                device=machine.device,
                precision=machine.precision,
                lengths=at,
                most_tokens=machine.micro_batch_tokens,
                most_mb=machine.most_mb,
                seconds=seconds / len(models) * len(at) / (len(lengths) + len(ends)),
                kernels=kernels,
            )
            for model in models
            for stage, at in ((stages.classification, lengths), (stages.adaptation, ends))
        }
    )
    return {
        model: ModelSteps(
            found[f"{model} {stages.classification}"],
            found[f"{model} {stages.adaptation}"],
            graph.backbone_at(model, stages.classification, None).blocks() or 0,
        )
        for model in models
    }
