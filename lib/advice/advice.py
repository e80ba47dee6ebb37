"""From a user's own texts to a mechanism: what each one costs here at each length limit, and which to take."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lib.advice import wording
from lib.advice.choices import Choice, Limit, choose
from lib.advice.question import Question
from lib.advice.scores import scores_near
from lib.advice.studies import OwnStudy, recipe, template
from lib.advice.texts import find_tokenizer, lost, read_sample, token_lengths
from lib.core.errors import ConfigError, RunError
from lib.core.inputs import resolve_paths
from lib.data.sections import Split
from lib.data.tokenizer import TextTokenizer
from lib.measure.estimates import Machine, ModelSteps, this_machine
from lib.measure.steps import measured
from lib.measure.study_steps import Stages, candidates, find_stages, model_steps
from lib.study.configuration import load_study, read_layers
from lib.study.graph import Graph
from lib.workflow.plan import Plan

LIMITS = (512, 1024, 2048, 4096, 8192, 16_384)
"""Tokens that documents are cut to."""

HELD_OUT = 0.1
"""Share of texts without labels that are held out."""


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
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = graph.tokenizer_of(models[0], template(graph, stages.classification, LIMITS[0]))
        place = find_tokenizer(plan, tokenizer, Path(folder) / tokenizer, sample.texts, question.vocabulary)
        lengths = token_lengths(sample.texts, TextTokenizer.load(place))
        limits = sorted(question.limits or LIMITS[: 1 + sum(limit < lengths.max() for limit in LIMITS)])
        longest = min(limits[-1], int(lengths.max()))
        steps = model_steps(
            graph,
            stages,
            models,
            machine,
            partial(measured, again=question.again),
            tokenizer=place,
            longest=longest,
            seconds=question.seconds,
        )

    split = Split()
    share = 1 - HELD_OUT if question.label is None else 1 - split.validation - split.test
    documents = max(1, round(share * sample.documents))
    table = [_at_limit(plan, stages, steps, machine, lengths, documents, limit) for limit in limits]
    taken = choose(table, question.points)
    if taken is None:
        raise RunError(
            f"{limits[0]} tokens: none of {', '.join(models)} fits into {machine.gibibytes:.1f} GiB. Expected one at "
            "least; ask for a shorter limit with --limits, or for a smaller encoder with --study."
        )
    text = "\n\n".join(
        [
            wording.texts(files, sample.documents, lengths),
            wording.machine(machine, documents, min(each.classification.longest for each in steps.values())),
            *(wording.limit(limit, baseline) for limit in table),
            wording.advice(taken, table, question.points, baseline),
            *_costs_before(graph, stages, steps[taken.model], taken.model, machine),
        ]
    )
    own = OwnStudy(
        question=question,
        model=taken.model,
        limit=taken.limit,
        documents=sample.documents,
        held_out=sample.documents - documents,
        execution=_execution(files[0], taken, machine),
        precision=machine.precision,
    )
    extends = Path(os.path.relpath(question.study, Path(name).parent)).as_posix()
    return text, own.write(layers, stages, extends)


def _at_limit(
    plan: Plan,
    stages: Stages,
    steps: Mapping[str, ModelSteps],
    machine: Machine,
    lengths: np.ndarray,
    documents: int,
    limit: int,
) -> Limit:
    """Return what every model that reads so many tokens costs here, and what is known of its score."""
    scores = scores_near(plan, stages.classification, limit)
    recipes = [recipe(plan.graph, stage, limit) for stage in (stages.adaptation, stages.classification)]
    choices = []
    for model, measured_steps in steps.items():
        reach = plan.graph.backbone_at(model, stages.classification, None).longest()
        if reach is not None and reach < limit:
            continue
        adaptation, classification = (
            measured_steps.cost(machine, settings, np.minimum(lengths, limit), documents, masked=masked)
            for settings, masked in zip(recipes, (True, False), strict=True)
        )
        seconds = sum(
            cost.seconds * settings.passes(documents)
            for cost, settings in zip((adaptation, classification), recipes, strict=True)
        )
        f1 = scores.by_model.get(model) if scores else None
        choices.append(Choice(model, limit, adaptation, classification, seconds / 3600, f1))
    return Limit(limit, *lost(lengths, limit), scores, choices)


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
