"""What a training job asks of a cluster, estimated from the configuration."""

import json
from pathlib import Path

from lib.backbones.encoder.settings import Encoder
from lib.core.kinds import MechanismParameters
from lib.core.settings.training import Optimisation

# An A100 reaches about a tenth of its nominal 312 TFLOP/s in bf16 on an encoder this small; a slower card
# raises `execution.job.runtime_scale`.
FLOPS_PER_SECOND = 30e12
START_UP_MINUTES = 15
SAFETY = 2
ASSUMED_DOCUMENTS = 50_000
VOCABULARY = 30_522
PREDICTED_SHARE = 0.15


def training_minutes(
    *,
    encoder: Encoder,
    mechanism: MechanismParameters,
    optimisation: Optimisation,
    max_tokens: int,
    token_lengths: str | Path,
    masked: bool,
) -> int:
    """Estimate the wall time of one training, in minutes, generously.

    Args:
        encoder: sizes of the encoder.
        mechanism: parameters of its attention.
        optimisation: epochs of the stage.
        max_tokens: longest document, in tokens.
        token_lengths: statistics of the tokenised splits; before they exist, `ASSUMED_DOCUMENTS` full-length
            documents are assumed.
        masked: whether the stage predicts masked tokens over the vocabulary.
    """
    path = Path(token_lengths)
    if path.is_file():
        train = json.loads(path.read_text(encoding="utf-8"))["train"]
        tokens = train["documents"] * train["mean"]
    else:
        tokens = ASSUMED_DOCUMENTS * max_tokens
    width = encoder.attention_size or encoder.hidden_size
    projections = encoder.num_hidden_layers * (4 * encoder.hidden_size * width)
    feed_forward = encoder.num_hidden_layers * 2 * encoder.hidden_size * encoder.intermediate_size
    attention = encoder.num_hidden_layers * 2 * width * mechanism.keys_per_query(max_tokens)
    head = PREDICTED_SHARE * encoder.hidden_size * VOCABULARY if masked else 0
    # Two operations a multiplication, forward once and backward twice.
    operations = 6 * tokens * optimisation.epochs * (projections + feed_forward + attention + head)
    return START_UP_MINUTES + round(SAFETY * operations / FLOPS_PER_SECOND / 60)
