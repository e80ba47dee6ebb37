"""Scores of models at some length: from run records of a study, or those that the grid printed."""

import math
from pathlib import Path
from typing import NamedTuple

from lib.evaluation.statistics import smallest_difference
from lib.results.printed_values import published_runs
from lib.results.quantities import MACRO, QUANTITIES
from lib.results.records import load_runs
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
    documents: int | None = None
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

    Those seeds count that all models of a length have. A stage with variants has no scores here: which variant is best
    is for a table of the search to say.
    """
    graph, source = plan.graph, QUANTITIES["f1"].source
    files = [Path(plan.paths.record(run.id)) for run in plan.runs if run.id.stage == stage]
    runs = load_runs(file.parent for file in files if file.is_file())
    if source not in runs or graph.experiment.stages[stage].variants:
        return []
    found = []
    for name, own in runs[runs["score"] == MACRO].dropna(subset=source).groupby("dataset"):
        dataset = str(name)
        if graph.corpus(dataset).composed:
            continue  # which says nothing about texts that people wrote
        f1 = 100 * own.pivot(index="seed", columns="model", values=source)
        owners: dict[int, dict[str, str]] = {}
        for row in graph.experiment.models:
            if graph.has_runs(row, stage, dataset) and graph.reads_tokens(row, stage, dataset):
                owners.setdefault(graph.max_tokens(row, dataset), {})[row] = graph.owner(row, stage, dataset)
        for length, rows in owners.items():
            there = {row: owner for row, owner in rows.items() if owner in f1}
            common = f1[sorted({*there.values()})].dropna()
            if there and len(common):
                by_model = {row: float(common[owner].mean()) for row, owner in there.items()}
                seeds = f"{len(common)} seed{'s' * (len(common) > 1)}"
                found.append(ModelScores(by_model, dataset, length, f"{plan.paths.results}, {seeds}"))
    return found


def _printed() -> list[ModelScores]:
    f1 = published_runs("grid")[QUANTITIES["f1"].name].dropna()["finetune"]
    return [
        ModelScores(
            f1.xs(dataset, level="dataset").to_dict(), dataset, tokens, "published, 1 seed", TEST_DOCUMENTS[dataset]
        )
        for dataset, tokens in PUBLISHED_TOKENS.items()
    ]
