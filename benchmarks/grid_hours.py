"""Extrapolate the hours of the full grid from training steps measured on this machine.

Steps of every model are measured on random ids at the grid's sizes and lengths, in turns with the other models; its
epochs are then drawn up batch by batch. Evaluations, the preparation of texts and the saving of checkpoints are left
out.

python benchmarks/grid_hours.py
python benchmarks/grid_hours.py --device cuda --kernels triton --out results/tables/grid_hours.csv
python benchmarks/grid_hours.py --device cuda --compile --models sdpa favor-m64

Prints hours per stage and the published ones; --out writes the hours of every run.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import torch

from benchmarks.options import write_table
from benchmarks.tables import COLUMNS
from benchmarks.token_lengths import typical_lengths
from lib.advice.estimates import Hardware, Steps, grows, spread_evenly, this_hardware
from lib.advice.training_steps import StepsCase, measure_turns
from lib.attention.settings import Kernels
from lib.backbones.settings import VOCABULARY
from lib.core import program
from lib.core.errors import ConfigError, DataError
from lib.results.printed_values import published_runs
from lib.study.configuration import Layer, load_study, merged, read_layers
from lib.study.graph import Graph
from lib.tokens.tokenizer import SPECIAL_TOKENS
from lib.tokens.vocabularies import from_vocabulary
from lib.workflow.planning.plan import Plan

SHORT = (128, 192, 256, 320, 512)
"""Tokens of the documents, N, that steps are measured with: many, since chunks that N does not fill cost most there."""

LONG = (2048, 8192, 16_384)
"""Tokens of long documents that steps are measured with, as far as time allows."""

MASKED = "masked language modelling"
"""Name of exact attention with that task, whose head costs as much with every mechanism."""

PUBLISHED = "grid"
DOCUMENTS = {"imdb": 40_000, "hyperpartisan": 52_000, "arxiv": 26_710}
"""Training documents of the grid's datasets. Source: the study, section 4.3."""


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
            for before in graph.chain(stage)[1:]:
                if trains(before, "masked_lm"):
                    return Stages(before, stage)
    raise ConfigError("the study has no stage of sequence_classification that starts from one of masked_lm.")


def candidates(graph: Graph, stages: Stages) -> list[str]:
    """Return the models that pass both stages on tokens, in order."""
    both = {stages.adaptation, stages.classification}
    passing = [model for model in graph.experiment.models if both <= set(graph.stages_of(model))]
    return [model for model in passing if all(graph.reads_tokens(model, stage, None) for stage in both)]


def exact_model(graph: Graph, stages: Stages, models: Sequence[str]) -> str:
    """Return the model that the others are compared with: the first with exact attention, or else the first."""
    backbones = {model: graph.backbone_at(model, stages.classification, None) for model in models}
    exact = (model for model, each in backbones.items() if grows(each) and each.exact_up_to() is None)
    return next(exact, models[0])


def grid_hours(
    study: str,
    *,
    device: str,
    kernels: Kernels,
    compile: bool,
    models: Sequence[str] | None,
    seconds: float,
    encoder: Mapping[str, Any],
) -> pd.DataFrame:
    """Return the hours of every run of a grid.

    Args:
        study: its file, such as `config/config.yaml`.
        device: `auto`, `cpu` or `cuda`.
        kernels: what attention computes with.
        compile: whether torch compiles the blocks.
        models: to measure; None = all of the grid that read tokens.
        seconds: about as long as steps are measured, all together.
        encoder: fields of the grid's encoders to change, for a trial.

    Returns:
        A row per stage, dataset and model: `documents`, `epochs`, `mean_tokens` and `lengths` (where they come from:
        `prepared` or `assumed`), `hours`, and `published_hours`, nan where the study printed none.

    Raises:
        ProjectError: the study has no such stages, or memory does not suffice.
    """
    layers = read_layers([study])
    plan = Plan(load_study([*layers, ("--encoder", _changes(layers, encoder))]))
    graph = plan.graph
    stages = find_stages(graph)
    every = candidates(graph, stages)
    chosen = [model for model in every if models is None or model in models]
    for model, stage, entry in graph.places:
        if model in chosen and graph.names_at(model, stage, entry) != graph.names_at(model, stage, None):
            raise ConfigError(
                f"models.{model}: differs at {stage} on {entry} (changes.*.data), but steps are measured once for all "
                "datasets. Name the other models with --models, or take the change out."
            )
    hardware = this_hardware(plan.study.execution, device, graph.experiment.precision)
    longest = max(graph.corpus(entry).max_tokens for entry in graph.experiment.stages[stages.classification].data)
    lengths = [*SHORT, *(length for length in LONG if length <= longest)]
    exact = exact_model(graph, stages, every)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Path(folder) / "tokenizer"
        # Ids are random, so only the size of the vocabulary matters.
        words = [*SPECIAL_TOKENS, *map(str, range(VOCABULARY - len(SPECIAL_TOKENS)))]
        from_vocabulary({word: number for number, word in enumerate(words)}, tokenizer)

        def case(model: str, stage: str) -> StepsCase:
            task = next(iter(graph.experiment.stages[stage].data.values())).task
            return StepsCase(graph.backbone_at(model, stage, None), task, str(tokenizer), hardware, kernels, compile)

        cases = {model: case(model, stages.classification) for model in {exact: 0} | dict.fromkeys(chosen)}
        cases[MASKED] = case(exact, stages.adaptation)
        turns = measure_turns(exact, cases, lengths, seconds, turns=3)

    steps = {model: quickest(each) for model, each in turns.items()}
    (size, length, masked), (*_, classified) = steps[MASKED].batches[1], steps[exact].batches[1]
    head = max(0.0, masked - classified) / (size * length)
    rows = [row for model in chosen for row in _hours_of(plan, stages, model, steps[model], head, hardware)]
    return pd.DataFrame(rows, columns=COLUMNS["grid_hours"])


def quickest(turns: Sequence[Steps]) -> Steps:
    """Return the shortest time of each batch over all turns, since whatever else a machine does only adds to it."""
    batches = zip(*(steps.batches for steps in turns), strict=True)
    return replace(turns[0], batches=[min(same, key=itemgetter(2)) for same in batches])


def _hours_of(
    plan: Plan, stages: Stages, model: str, steps: Steps, head: float, hardware: Hardware
) -> Iterator[tuple[str | float, ...]]:
    """Yield the rows of a model, one per stage and dataset; `head` = seconds per token of masked language modelling."""
    graph, published = plan.graph, published_runs(PUBLISHED)["minutes_per_epoch"]
    for stage in reversed(graph.chain(stages.classification)):
        for entry in graph.entries(model, stage):
            work = graph.work(model, stage, entry)
            if work.recipe is None:
                continue
            lengths, documents, source = training_lengths(plan, entry, graph.tokenizer_of(model, entry))
            of_task = replace(steps, head_seconds=head if work.task.kind == "masked_lm" else 0.0)
            cost = of_task.cost(hardware, work.recipe, lengths, documents)
            epochs = work.recipe.epochs_over(documents)
            hours = cost.seconds * epochs / 3600
            published_hours = published.get((stage, model, entry), np.nan) * epochs / 60
            yield stage, entry, model, documents, epochs, lengths.mean(), source, hours, published_hours


def summary(hours: pd.DataFrame) -> str:
    """Return the hours per stage, published hours and totals as text; `hours` is the result of `grid_hours`."""
    by_stage = hours.groupby("stage", sort=False)[["hours", "published_hours"]].sum()
    together = pd.concat([by_stage, by_stage.sum().to_frame("all").T])
    assumed = sorted(set(hours[hours["lengths"] == "assumed"]["dataset"]))
    notes = [
        f"{hours['model'].nunique()} models, {len(hours)} runs. Published: minutes of the study's runs on one A100, "
        "evaluations included; its search of hyper-parameters, which this leaves out, made them 169.5 hours."
    ]
    if assumed:
        notes.append(f"Lengths of {', '.join(assumed)} are assumed, from samples: their texts are not prepared here.")
    return together.to_string(float_format="{:.2f}".format) + "\n\n" + "\n".join(notes)


def training_lengths(plan: Plan, entry: str, tokenizer: str) -> tuple[np.ndarray, int, str]:
    """Return the tokens of training documents like those of a corpus or dataset [n], their number, and the source.

    Args:
        plan: plan of the study; statistics of its prepared texts replace assumptions.
        entry: name of the corpus or dataset.
        tokenizer: its name.
    """
    path = Path(plan.paths.token_lengths(entry, tokenizer))
    corpora = plan.experiment.corpora
    if path.is_file():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            parts = [found[name] for name in ("train_short", "train_long") if name in found] or [found["train"]]
            parts = [part for part in parts if part["documents"]]
            lengths = np.concatenate([described(part, part["documents"]) for part in parts])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: no statistics of token lengths ({error!r}). Make it again.") from error
        return lengths, len(lengths), "prepared"
    if entry in corpora:
        cuts = [(part.articles, part.max_tokens) for part in (corpora[entry].short, corpora[entry].long)]
    else:
        cuts = [(DOCUMENTS.get(entry, 50_000), plan.experiment.datasets[entry].max_tokens)]
    lengths = np.concatenate([typical_lengths(entry, number, limit) for number, limit in cuts if number])
    return lengths, len(lengths), "assumed"


def described(statistics: Mapping[str, Any], documents: int) -> np.ndarray:
    """Return token lengths that statistics describe [documents]: same median, mean and share at the limit.

    Lengths grow evenly up to the median, and from there to the limit by a power that makes the mean right. Where most
    are nearly as long as the longest, no power does, and the mean is lower.

    Args:
        statistics: of a split, see `lib.tokens.tokenizing`.
        documents: number of lengths.
    """
    least, median, most = statistics["min"], statistics["median"], statistics["max"]
    end = 1 - statistics["at_limit"]
    start, lowest = (0.5, median) if end > 0.5 else (0.0, least)
    at = spread_evenly(documents)
    lengths = np.interp(at, [0, start], [least, lowest])
    if end > start and most > lowest:
        rest = statistics["mean"] - start * (least + lowest) / 2 - (1 - end) * most
        mean = np.clip(rest / (end - start), lowest + 1e-3 * (most - lowest), most)
        power = (most - lowest) / (mean - lowest) - 1
        grown = lowest + (most - lowest) * ((at - start) / (end - start)).clip(0, 1) ** power
        lengths = np.where(at > start, grown, lengths)
    return np.where(at > end, most, lengths).round()


def _changes(layers: Sequence[Layer], encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Return a layer that gives a study's encoders other fields, and takes its report away, which is not needed."""
    raw, sections = merged(layers), ("tables", "figures", "analyses")
    encoders = [name for name, each in raw["experiment"]["backbones"].items() if each["kind"] == "encoder"]
    report = {section: dict.fromkeys(raw.get("report", {}).get(section) or {}) for section in sections}
    return {
        "experiment": {"backbones": {name: dict(encoder) for name in encoders}},
        "report": report | {"opens_with": None},
    }


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--study", default="config/config.yaml", metavar="FILE", help="the grid (config/config.yaml)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="the GPU if any (auto)")
    parser.add_argument(
        "--kernels", choices=get_args(Kernels), default="auto", help="implementation of attention (auto)"
    )
    parser.add_argument("--compile", action="store_true", help="with blocks that torch compiles")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="models of the grid (all)")
    seconds = 60.0 if torch.cuda.is_available() else 300.0
    parser.add_argument(
        "--seconds",
        type=float,
        default=seconds,
        metavar="S",
        help="approximate time of the measurement (300; on a GPU 60)",
    )
    parser.add_argument(
        "--encoder", type=json.loads, default={}, metavar="JSON", help="other sizes of the encoder, for a trial"
    )
    parser.add_argument("--out", type=program.file_to_write, metavar="FILE", help="CSV file to write")
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    hours = grid_hours(**arguments)
    print(summary(hours))
    if out:
        write_table(out, hours)


if __name__ == "__main__":
    program.start(main)
