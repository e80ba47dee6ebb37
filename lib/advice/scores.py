"""Scores of models at some length: those that the grid printed."""

import math
from typing import NamedTuple

from lib.evaluation.statistics import smallest_difference
from lib.results.printed_values import published_runs
from lib.results.quantities import QUANTITIES
from lib.study.graph import Graph

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
    """F1 in per cent, of one seed; models without a result are missing."""
    dataset: str
    max_tokens: int

    @property
    def noise(self) -> float:
        """Smallest difference in points that the number of test documents shows.

        Two models are assumed to disagree on as large a share of documents as they get wrong. What another seed would
        give comes on top.
        """
        wrong = 1 - sum(self.by_model.values()) / max(1, len(self.by_model)) / 100
        return 100 * (difference_shown(TEST_DOCUMENTS[self.dataset], max(wrong, 0.01)) or 0.0)


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


def scores_near(graph: Graph, stage: str, limit: int) -> ModelScores | None:
    """Return the printed scores at the length nearest to `limit`; None if none is near.

    A model counts if it approximates attention at both lengths or at neither. Otherwise its score belongs to another
    computation than its time.

    Args:
        graph: models of the study.
        stage: stage of classification.
        limit: tokens that documents are cut to.
    """
    # Of two lengths with the same distance, the longer one counts.
    distances = {name: (abs(math.log2(tokens / limit)), -tokens) for name, tokens in PUBLISHED_TOKENS.items()}
    dataset = min(distances, key=lambda name: distances[name])
    if distances[dataset][0] > math.log2(NEAR):
        return None
    tokens = PUBLISHED_TOKENS[dataset]
    f1 = published_runs("grid")[QUANTITIES["f1"].name].dropna()["finetune"].xs(dataset, level="dataset").to_dict()
    models = f1.keys() & graph.experiment.models
    reach = {model: graph.backbone_at(model, stage, None).exact_up_to() for model in models}
    other = {name for name, exact in reach.items() if exact is not None and (limit > exact) != (tokens > exact)}
    return ModelScores({model: score for model, score in f1.items() if model not in other}, dataset, tokens)
