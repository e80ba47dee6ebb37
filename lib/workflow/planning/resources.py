"""What a training job asks of a cluster, estimated from the configuration."""

import json
from pathlib import Path

from lib.backbones.settings import BackboneSettings
from lib.study.recipe import Recipe

# An A100 reaches about a tenth of its nominal 312 TFLOP/s in bf16 on an encoder this small; a slower card
# raises `execution.job.runtime_scale`.
FLOPS_PER_SECOND = 30e12
START_UP_MINUTES = 15
SAFETY = 2
SHORTEST_MINUTES = 5
"""No job asks for less: it has to start, and Slurm warns it two minutes before its time is over."""
ASSUMED_DOCUMENTS = 50_000


def training_minutes(
    *,
    backbone: BackboneSettings,
    recipe: Recipe | None,
    predicted_share: float,
    imitated: BackboneSettings | None = None,
    max_tokens: int,
    token_lengths: str | Path,
) -> int:
    """Estimate the wall time of one training, in minutes, generously.

    Args:
        backbone: what is trained.
        recipe: how it trains; None = it predicts other documents, which takes no longer than an epoch.
        predicted_share: share of the tokens with scores over the vocabulary.
        imitated: backbone of the model that it imitates, which does not train.
        max_tokens: longest document, in tokens.
        token_lengths: statistics of the tokenised splits; before they exist, `ASSUMED_DOCUMENTS` full-length
            documents are assumed.
    """
    path = Path(token_lengths)
    if path.is_file():
        train = json.loads(path.read_text(encoding="utf-8"))["train"]
        documents, length = train["documents"], train["mean"]
    else:
        documents, length = ASSUMED_DOCUMENTS, max_tokens
    tokens = documents * length * (recipe.epochs_over(documents) if recipe else 1)
    # Two operations per multiplication, forward once and backward twice.
    operations = 6 * tokens * backbone.products_per_token(max_tokens, predicted_share)
    if imitated:
        operations += 2 * tokens * imitated.products_per_token(max_tokens, 0)
    return START_UP_MINUTES + round(SAFETY * operations / FLOPS_PER_SECOND / 60)
