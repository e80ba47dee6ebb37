"""Classify the documents of a file with a fine-tuned model."""

import logging
from pathlib import Path

import pandas as pd
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, TextClassificationPipeline, pipeline

from lib.core.errors import RunError
from lib.core.files import atomic_path
from lib.data.encoding import encode
from lib.data.readers import read_records
from lib.data.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)


class _Classification(TextClassificationPipeline):
    """Cuts texts as the model's own run did."""

    def preprocess(self, inputs: str, max_length: int) -> dict[str, Tensor]:
        """Return the tokens of a text [1, N], at most `max_length`."""
        return encode([inputs], TextTokenizer(self.tokenizer), max_length)


def predict(
    model: str | Path,
    source: str | Path,
    target: str | Path,
    *,
    column: str = "text",
    max_tokens: int | None = None,
    batch_size: int = 8,
    device: str | None = None,
) -> None:
    """Write the predicted label and the probability of every class of each document.

    Args:
        model: model folder of a fine-tuning run.
        source: documents, in any format of `lib.data.formats`; a text file holds one a line.
        target: CSV to appear, with `id`, `label` and a column for each class, in the order of `source`.
        column: column of the text, where the format has columns.
        max_tokens: tokens that a document is cut to; None = as in the model's own run.
        batch_size: documents at once.
        device: `cpu`, `cuda`, ...; None takes a GPU if there is one.

    Raises:
        RunError: the folder holds no fine-tuned model.
        DataError: the documents cannot be read.
    """
    path = Path(model)
    if not (path / "config.json").is_file():
        raise RunError(f"{path}: no config.json. Expected the model folder of a fine-tuning run, .../model.")
    made_as = AutoConfig.from_pretrained(path, trust_remote_code=False).architectures or []
    if not any(name.endswith("ForSequenceClassification") for name in made_as):
        raise RunError(
            f"{path}: holds a model of {', '.join(made_as) or 'no known kind'}, which does not classify documents. "
            "Expected that of a run of sequence_classification."
        )
    records = list(read_records({Path(source).stem: [source]}, text=column))
    classify = pipeline(
        "text-classification",
        model=AutoModelForSequenceClassification.from_pretrained(path, trust_remote_code=False),
        tokenizer=str(path),
        trust_remote_code=False,
        device=device,
        top_k=None,
        pipeline_class=_Classification,
    )
    limit = max_tokens or classify.tokenizer.model_max_length
    # Documents of like length share a batch; most characters first, so that memory that does not suffice shows at once.
    order = sorted(range(len(records)), key=lambda index: -len(records[index].text))
    scores = classify((records[index].text for index in order), batch_size=batch_size, max_length=limit)
    rows: dict[int, dict[str, float | str]] = {}
    for index, result in zip(order, scores, strict=True):
        rows[index] = {"id": records[index].id, "label": result[0]["label"]}
        rows[index] |= dict(sorted((entry["label"], entry["score"]) for entry in result))
    with atomic_path(target) as partial:
        pd.DataFrame([rows[index] for index in range(len(records))]).to_csv(partial, index=False)
    logger.info("%s: %d documents, cut to %d tokens", target, len(records), limit)
