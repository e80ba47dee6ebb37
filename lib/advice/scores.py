"""Scores of models at some length: from run records of a study, or those that the grid printed."""

import math
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lib.core.record import PREDICTIONS
from lib.evaluation.statistics import smallest_difference
from lib.results.predictions import load_predictions
from lib.results.printed_values import published_runs
from lib.results.quantities import MACRO, QUANTITIES
from lib.results.records import SPLITS, load_runs
from lib.workflow.planning.plan import Plan

PUBLISHED_TOKENS = {"imdb": 512, "hyperpartisan": 4096, "arxiv": 16_384}
"""Tokens that the study cut its documents to. Source: the study's section 4.3, and `config/config.yaml`."""

TEST_DOCUMENTS = {"imdb": 5_000, "hyperpartisan": 6_500, "arxiv": 3_339}
"""Documents that the study tested on. Source: the same."""

LEVEL, POWER = 0.05, 0.8
"""Two-sided level and power of the test for a difference between two models."""

NEAR = 2
"""Factor within which two limits count as the same length."""


class ModelScores(NamedTuple):
    """Macro-F1 on test, of documents cut to similar lengths."""

    by_model: dict[str, float]
    """F1 in per cent, mean over seeds; models without a result are missing."""
    dataset: str
    max_tokens: int
    source: str
    """Where they come from, in words."""
    seeds: int
    """Fewest seeds of any score."""
    documents: int | None
    """Documents in the test split; None = unknown."""

    @property
    def noise(self) -> float | None:
        """Smallest difference in points that this number of test documents shows; None if their number is unknown.

        Two models are assumed to disagree on as large a share of documents as they get wrong. What another seed would
        give comes on top.
        """
        if self.documents is None or not self.by_model:
            return None
        wrong = 1 - sum(self.by_model.values()) / len(self.by_model) / 100
        found = difference_shown(self.documents, max(wrong, 0.01))
        return None if found is None else 100 * found


def difference_shown(documents: int, disagreement: float) -> float | None:
    """Return the smallest difference in accuracy between two given models that a number of test documents shows.

    Args:
        documents: documents of the test split.
        disagreement: share of them that exactly one of the two models gets right.

    Returns:
        A fraction; None if not even a difference as large as the disagreement is shown.
    """
    found = smallest_difference(0.0, disagreement / documents, 1, documents, LEVEL, POWER)
    return found if found is not None and found <= disagreement else None


def scores_near(plan: Plan, stage: str, limit: int) -> ModelScores | None:
    """Return the scores at the length nearest to `limit`: the study's own before printed ones; None if none is near.

    A model counts if it approximates attention at both lengths or at neither. Otherwise its score belongs to another
    computation than its time.

    Args:
        plan: the study; its finished runs on texts that are not generated count.
        stage: stage of classification.
        limit: tokens that documents are cut to.

    Raises:
        DataError: a run record is damaged.
    """
    found = _nearest(_own(plan, stage), limit) or _nearest(_printed(), limit)
    if found is None:
        return None
    models = plan.graph.experiment.models
    reach = {
        model: plan.graph.backbone_at(model, stage, None).exact_up_to() for model in found.by_model.keys() & models
    }
    by_model = {
        model: score
        for model, score in found.by_model.items()
        if (exact := reach.get(model)) is None or (limit > exact) == (found.max_tokens > exact)
    }
    return found._replace(by_model=by_model)


def _nearest(found: list[ModelScores], limit: int) -> ModelScores | None:
    """Return the scores at the nearest length; of two with the same distance, those of the longer documents."""
    distances = [abs(math.log2(scores.max_tokens / limit)) for scores in found]
    near = [pair for pair in zip(distances, found, strict=True) if pair[0] <= math.log2(NEAR)]
    return min(near, key=lambda pair: (pair[0], -pair[1].max_tokens))[1] if near else None


def _own(plan: Plan, stage: str) -> list[ModelScores]:
    """Return the scores of the study's finished runs, by dataset and by the length that the models read there.

    A model that reads texts, and no tokens, has one score for all lengths. If the stage has variants, that of the best
    one on validation counts, as in a table of the search. Of a study that is not finished, the seeds count that all
    models of a length have, if there are any.
    """
    graph, quantity = plan.graph, QUANTITIES["f1"]
    runs = load_runs(
        Path(file).parent
        for file in [plan.paths.record(run.id) for run in plan.runs if run.id.stage == stage]
        if Path(file).is_file()
    )
    if quantity.source not in runs:
        return []
    found = []
    for name, own in runs[runs["score"] == MACRO].dropna(subset=quantity.source).groupby("dataset"):
        dataset = str(name)
        if graph.corpus(dataset).composed:
            continue  # which says nothing about texts that people wrote
        best = _runs_of_best_variants(own)
        rows = [row for row in graph.experiment.models if graph.has_runs(row, stage, dataset)]
        owners = {row: owner for row in rows if (owner := graph.owner(row, stage, dataset)) in set(best["model"])}
        lengths = {row: graph.max_tokens(row, dataset) for row in owners if graph.reads_tokens(row, stage, dataset)}
        for length in sorted(set(lengths.values()) or {graph.corpus(dataset).max_tokens}):
            there = {row: owner for row, owner in owners.items() if lengths.get(row, length) == length}
            scored = _of_common_seeds(best[best["model"].isin(there.values())]).groupby("model")
            means = quantity.factor * scored["test_score"].mean()
            by_model = {row: float(means[owner]) for row, owner in there.items()}
            seeds = int(scored["seed"].nunique().min())
            source = f"{plan.paths.results}, {seeds} seed{'s' * (seeds > 1)}"
            documents = _tested_on(best.loc[best["model"].isin(there.values()), "folder"].iloc[0])
            found.append(ModelScores(by_model, dataset, length, source, seeds, documents))
    return found


def _tested_on(folder: str) -> int | None:
    """Return the number of test documents of a run; None if its predictions are not here, as of an imported one."""
    return len(load_predictions(folder, ["id"])) if Path(folder, PREDICTIONS).exists() else None


def _runs_of_best_variants(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of each model's best variant.

    The best one has the highest mean on validation, of those with the most finished runs.
    """
    columns = ["model", "variant", "seed", "folder", *(f"{split}_score" for split in SPLITS)]
    runs = runs.reindex(columns=columns)
    variants = runs.groupby(["model", "variant"], as_index=False)
    means = variants.agg(validation=("eval_score", "mean"), seeds=("seed", "nunique"))
    ordered = means.sort_values(["seeds", "validation"], ascending=False, kind="stable")
    return runs.merge(ordered.drop_duplicates("model")[["model", "variant"]])


def _of_common_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with seeds that all models have, so that their means are comparable; without any, all runs."""
    models = runs.groupby("seed")["model"].nunique()
    common = runs[runs["seed"].isin(models.index[models == runs["model"].nunique()])]
    return runs if common.empty else common


def _printed() -> list[ModelScores]:
    name = QUANTITIES["f1"].name
    rows = published_runs("grid").reset_index()
    rows = rows[(rows["stage"] == "finetune") & rows[name].notna() & rows["dataset"].isin(PUBLISHED_TOKENS)]
    return [
        ModelScores(
            _by_model(own, name),
            str(dataset),
            PUBLISHED_TOKENS[str(dataset)],
            "published, 1 seed",
            1,
            TEST_DOCUMENTS[str(dataset)],
        )
        for dataset, own in rows.groupby("dataset")
    ]


def _by_model(rows: pd.DataFrame, column: str) -> dict[str, float]:
    return {str(model): float(value) for model, value in zip(rows["model"], rows[column], strict=True)}
