"""What is measured of a study's models: steps of classification at all lengths, of masked language modelling at few."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lib.advice.estimates import Machine, ModelSteps
from lib.advice.steps import LENGTHS, SHORT, Case, Steps
from lib.advice.studies import Stages
from lib.attention.parameters import Kernels
from lib.study.graph import Graph


def model_cases(
    graph: Graph,
    stages: Stages,
    models: Sequence[str],
    machine: Machine,
    *,
    tokenizer: Path,
    longest: int,
    seconds: float,
    kernels: Kernels = "auto",
) -> dict[str, Case]:
    """Return what to measure, by names that `model_steps` knows.

    Args:
        graph: of the study.
        stages: of the study.
        models: to measure.
        machine: to measure on.
        tokenizer: folder.
        longest: tokens of the longest document.
        seconds: about as long as it may take, all together.
        kernels: what attention computes with.
    """
    lengths = LENGTHS[: max(len(SHORT), 1 + sum(length < longest for length in LENGTHS))]
    ends = (SHORT[0], SHORT[-1])
    return {
        f"{model} {stage}": Case(
            backbone=graph.backbone_at(model, stage),
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


def model_steps(
    graph: Graph, stages: Stages, models: Sequence[str], found: Mapping[str, Steps]
) -> dict[str, ModelSteps]:
    """Return what was measured of every model; `found` has the names of `model_cases`."""
    return {
        model: ModelSteps(
            found[f"{model} {stages.classification}"],
            found[f"{model} {stages.adaptation}"],
            graph.backbone_at(model, stages.classification).blocks() or 0,
        )
        for model in models
    }
