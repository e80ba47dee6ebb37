"""From a user's own texts to a mechanism: what each one costs here at each length limit, and which to take."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lib.advice import wording
from lib.advice.choices import Choice, Limit, choose
from lib.advice.estimates import Machine, ModelSteps, this_machine
from lib.advice.measuring import model_cases, model_steps
from lib.advice.scores import scores_near
from lib.advice.steps import measured
from lib.advice.studies import OwnStudy, Stages, candidates, find_stages, recipe, template
from lib.advice.texts import find_tokenizer, lost, read_sample, token_lengths
from lib.core.errors import ConfigError, RunError
from lib.core.inputs import resolve_paths
from lib.data.sections import Split
from lib.data.tokenizer import TextTokenizer
from lib.study.configuration import load_study, read_layers
from lib.study.graph import Graph
from lib.workflow.plan import Plan

LIMITS = (512, 1024, 2048, 4096, 8192, 16_384)
"""Tokens that documents are cut to."""

HELD_OUT = 0.1
"""Share of texts without labels that are held out."""


@dataclass(frozen=True)
class Question:
    """What a user asks.

    Args:
        study: file of the study whose encoder and recipes are estimated.
        texts: files, or patterns of files.
        column: of the text.
        label: column of the label; None = there are none.
        labels: names of the classes, in the order of their numbers.
        device: `auto`, `cpu` or `cuda`.
        vocabulary: a vocab.txt in place of the study's vocabulary.
        limits: tokens that documents may be cut to; None = `LIMITS`, up to the first that loses nothing.
        sample: documents whose tokens are counted, at most.
        points: macro-F1, in per cent, by which a model may lie below the best one.
        seconds: about as long as steps are measured, unless they were before.
        again: measure steps even if they were measured before.
    """

    study: str
    texts: Sequence[str]
    column: str = "text"
    label: str | None = None
    labels: Sequence[str] = ()
    device: str = "auto"
    vocabulary: str | None = None
    limits: Sequence[int] | None = None
    sample: int = 1000
    points: float = 1.0
    seconds: float = 120.0
    again: bool = False


def advise(question: Question, name: str = "config/texts.yaml") -> tuple[str, str]:
    """Return the advice as Markdown, and the file that follows it as YAML.

    Args:
        question: what is asked.
        name: of that file; it need not exist.

    Raises:
        ProjectError: the texts or the study do not allow an answer.
    """
    layers = read_layers([question.study])
    plan = Plan(load_study(layers))
    graph, baseline = plan.graph, plan.study.report.baseline
    stages = find_stages(graph)
    models = candidates(graph, stages)
    if not models:
        both = f"{stages.adaptation} and {stages.classification}"
        raise ConfigError(f"{question.study}: no model passes {both} on tokens. Expected one at least.")
    machine = this_machine(plan.study.execution, question.device, graph.experiment.precision)

    files = resolve_paths(question.texts)
    sample = read_sample(
        files, column=question.column, size=question.sample, label=question.label, labels=question.labels
    )
    tokenizer = graph.tokenizer_of(models[0], template(graph, stages.classification, LIMITS[0]))
    with tempfile.TemporaryDirectory() as folder:
        place = find_tokenizer(plan, tokenizer, Path(folder) / tokenizer, sample.texts, question.vocabulary)
        lengths = token_lengths(sample.texts, TextTokenizer.load(place))
        limits = sorted(question.limits or LIMITS[: 1 + sum(limit < lengths.max() for limit in LIMITS)])
        longest = min(limits[-1], int(lengths.max()))
        cases = model_cases(graph, stages, models, machine, tokenizer=place, longest=longest, seconds=question.seconds)
        steps = model_steps(graph, stages, models, measured(cases, again=question.again))

    split = Split()
    share = 1 - HELD_OUT if question.label is None else 1 - split.validation - split.test
    documents = max(1, round(share * sample.documents))
    table = []
    for limit in limits:
        scores = scores_near(plan, stages.classification, limit)
        recipes = [recipe(graph, stage, limit) for stage in (stages.adaptation, stages.classification)]
        choices = []
        for model in models:
            reach = graph.backbone_at(model, stages.classification).longest()
            if reach is not None and reach < limit:
                continue
            adaptation, classification = (
                steps[model].cost(machine, settings, np.minimum(lengths, limit), documents, masked=masked)
                for settings, masked in zip(recipes, (True, False), strict=True)
            )
            seconds = sum(
                cost.seconds * settings.passes(documents)
                for cost, settings in zip((adaptation, classification), recipes, strict=True)
            )
            f1 = scores.by_model.get(model) if scores else None
            choices.append(Choice(model, limit, adaptation, classification, seconds / 3600, f1))
        table.append(Limit(limit, *lost(lengths, limit), scores, choices))
    taken = choose(table, question.points)
    if taken is None:
        raise RunError(
            f"{limits[0]} tokens: none of {', '.join(models)} fits into {machine.gibibytes:.1f} GiB. Expected one at "
            "least; ask for a shorter limit with --limits, or for a smaller encoder with --study."
        )
    measured_up_to = min(each.classification.longest for each in steps.values())
    text = "\n\n".join(
        [
            wording.texts(files, sample.documents, lengths),
            wording.machine(machine, documents, measured_up_to),
            *(wording.limit(limit, baseline) for limit in table),
            wording.advice(taken, table, question.points, baseline),
            *_costs_before(graph, stages, steps[taken.model], taken.model, machine),
        ]
    )
    own = OwnStudy(
        model=taken.model,
        limit=taken.limit,
        files=list(question.texts),
        column=question.column,
        label=question.label,
        labels=question.labels,
        documents=sample.documents,
        held_out=sample.documents - documents,
        vocabulary=question.vocabulary,
        execution=_execution(files[0], taken, machine),
        precision=machine.precision,
    )
    extends = Path(os.path.relpath(question.study, Path(name).parent)).as_posix()
    return text, own.write(layers, stages, extends)


def _costs_before(graph: Graph, stages: Stages, steps: ModelSteps, model: str, machine: Machine) -> Iterator[str]:
    """Yield in words what each run on a corpus costs that the adaptation starts from."""
    stage = stages.adaptation
    while (parent := graph.parent_stage(model, stage)) is not None:
        stage = parent
        for entry in graph.experiment.stages[stage].data:
            work = graph.work(model, stage, entry)
            if entry not in graph.experiment.corpora or work.recipe is None:
                continue
            parts = (graph.experiment.corpora[entry].short, graph.experiment.corpora[entry].long)
            lengths = np.repeat([part.max_tokens for part in parts], [part.articles for part in parts])
            cost = steps.cost(machine, work.recipe, lengths, len(lengths), masked=True)
            passes = work.recipe.passes(len(lengths))
            yield wording.before(stage, entry, passes, cost.seconds * passes)


def _execution(file: Path, taken: Choice, machine: Machine) -> dict[str, Any]:
    """Return the settings of `execution` that differ from the study's."""
    execution: dict[str, Any] = {"results": f"results/{file.name.split('.')[0]}"}
    training: dict[str, Any] = {"device": "cpu"} if machine.device == "cpu" else {}
    if reduced := [cost.micro_batch_tokens for cost in taken.costs if cost.reduced]:
        training["micro_batch_tokens"] = min(reduced)
    if training:
        execution["training"] = training
    if machine.device == "cpu":
        execution["job"] = {"gpu": 0}
    return execution
