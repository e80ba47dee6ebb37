"""The hours of the full grid, extrapolated from training steps that are measured on this machine.

Steps of every model are measured on random ids at the grid's sizes and lengths, as `lib.advice.steps` says; its epochs
are then drawn up batch by batch. Evaluations, the preparation of texts and the saving of checkpoints are left out.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.advice.estimates import this_machine
from lib.advice.measuring import model_cases, model_steps
from lib.advice.steps import measured_now
from lib.advice.studies import SECTIONS, candidates, find_stages
from lib.attention.parameters import Kernels
from lib.core.errors import DataError
from lib.data.tokenizer import SPECIAL_TOKENS, TextTokenizer
from lib.results.printed_values import published_runs
from lib.study.configuration import Layer, load_study, merged, read_layers
from lib.workflow.plan import Plan

PUBLISHED = "grid"
VOCABULARY = 30_522
LENGTHS: Mapping[str, Sequence[int]] = {
    "wikipedia": (
        181, 239, 261, 282, 307, 335, 364, 390, 418, 459, 510,
        551, 604, 666, 743, 854, 989, 1221, 1576, 2322, 19_391,
    ),
    "imdb": (
        14, 81, 121, 141, 152, 162, 171, 181, 194, 207, 221,
        238, 260, 288, 315, 351, 400, 460, 556, 724, 2813,
    ),
    "hyperpartisan": (
        1434, 1530, 1565, 1595, 1639, 1683, 1714, 1813, 1882, 1925, 1976,
        2088, 2181, 2250, 2322, 2431, 2459, 2853, 3243, 4737, 6864,
    ),
    "arxiv": (
        371, 1405, 2035, 2480, 2898, 3316, 3653, 4219, 4498, 4983, 5364,
        5780, 6319, 6820, 7386, 7850, 8781, 10_206, 11_836, 14_116, 27_065,
    ),
}  # fmt: skip
"""Tokens of documents before they are cut, where a study has not prepared its own: the quantiles 0, 0.05, ..., 1.

With BERT's vocabulary, of samples of real texts: IMDb's reviews; 3,000 articles of Wikipedia with at least 1,000
characters; 65 articles of Hyperpartisan (by article) with at least 7,000 characters; 605 papers of arXiv. Other texts
have as many tokens as their limit.
"""
DOCUMENTS = {"imdb": 40_000, "hyperpartisan": 52_000, "arxiv": 26_710}
"""Training documents of the grid's datasets. Source: the study, section 4.3."""

COLUMNS = ["stage", "dataset", "model", "documents", "epochs", "mean_tokens", "lengths", "hours", "published_hours"]


def grid_hours(
    study: str,
    *,
    device: str,
    kernels: Kernels,
    models: Sequence[str] | None,
    seconds: float,
    encoder: Mapping[str, Any],
) -> pd.DataFrame:
    """Return the hours of every run of a grid.

    Args:
        study: its file, such as `config/config.yaml`.
        device: `auto`, `cpu` or `cuda`.
        kernels: what attention computes with.
        models: to measure; None = all of the grid that read tokens.
        seconds: about as long as steps are measured, all together.
        encoder: fields of the grid's encoders that are to be others, for a trial.

    Returns:
        A row per stage, dataset and model: `documents`, `epochs`, `mean_tokens` and `lengths` (where they come from:
        `prepared` or `assumed`), `hours`, and `published_hours`, nan where the study printed none.

    Raises:
        ProjectError: the study has no such stages, or memory does not suffice.
    """
    layers = read_layers([study])
    plan = Plan(load_study([*layers, ("--encoder", _changes(layers, encoder))]))
    experiment = plan.experiment
    stages = find_stages(experiment)
    every = candidates(experiment, stages)
    chosen = [model for model in every if models is None or model in models]
    machine = this_machine(plan.study.execution, device, experiment.precision)
    longest = max(experiment.corpus(entry).max_tokens for entry in experiment.stages[stages.classification].data)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tokenizer"
        # Ids are random, so only the size of the vocabulary matters.
        words = [*SPECIAL_TOKENS, *map(str, range(VOCABULARY - len(SPECIAL_TOKENS)))]
        TextTokenizer.from_vocabulary({word: number for number, word in enumerate(words)}, place)
        cases = model_cases(
            experiment, stages, chosen, machine, tokenizer=place, longest=longest, seconds=seconds, kernels=kernels
        )
        steps = model_steps(experiment, stages, chosen, measured_now(cases))

    published = published_runs(PUBLISHED)["minutes_per_epoch"]
    rows = []
    for model in chosen:
        for stage in reversed(experiment.chain(stages.classification)):
            for entry in experiment.stages[stage].data:
                work = experiment.work(model, stage, entry)
                if work.recipe is None:
                    continue
                lengths, documents, source = training_lengths(plan, entry, experiment.tokenizer_of(model, entry))
                cost = steps[model].cost(machine, work.recipe, lengths, documents, masked=work.task.kind == "masked_lm")
                passes = work.recipe.passes(documents)
                rows.append(
                    {
                        "stage": stage,
                        "dataset": entry,
                        "model": model,
                        "documents": documents,
                        "epochs": passes,
                        "mean_tokens": lengths.mean(),
                        "lengths": source,
                        "hours": cost.seconds * passes / 3600,
                        "published_hours": published.get((stage, model, entry), np.nan) * passes / 60,
                    }
                )
    return pd.DataFrame(rows, columns=COLUMNS)


def summary(hours: pd.DataFrame) -> str:
    """Return the hours per stage beside the published ones, and those of all, as text; `hours` as of `grid_hours`."""
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
        plan: of the study; statistics of its prepared texts count before what is assumed.
        entry: name of the corpus or dataset.
        tokenizer: its name.
    """
    path = Path(plan.token_lengths(entry, tokenizer))
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
    parts_assumed = [
        np.minimum(np.quantile(LENGTHS.get(entry, (limit,)), (np.arange(number) + 0.5) / number), limit)
        for number, limit in cuts
        if number
    ]
    lengths = np.concatenate(parts_assumed).round()
    return lengths, len(lengths), "assumed"


def described(statistics: Mapping[str, Any], documents: int) -> np.ndarray:
    """Return token lengths that statistics describe [documents]: same median, mean and share at the limit.

    Lengths grow evenly up to the median, and from there to the limit by a power that makes the mean right.

    Args:
        statistics: of a split, see `lib.data.tokenizing`.
        documents: number of lengths.
    """
    least, median, most = statistics["min"], statistics["median"], statistics["max"]
    end = 1 - statistics["at_limit"]
    start, lowest = (0.5, median) if end > 0.5 else (0.0, least)
    at = (np.arange(documents) + 0.5) / documents
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
    raw = merged(layers)
    encoders = [name for name, each in raw["experiment"]["backbones"].items() if each["kind"] == "encoder"]
    return {
        "experiment": {"backbones": {name: dict(encoder) for name in encoders}},
        "report": {section: dict.fromkeys(raw.get("report", {}).get(section) or {}) for section in SECTIONS},
    }
