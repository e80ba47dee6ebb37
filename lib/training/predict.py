"""Predict the class, or the number, of each document in a file with a fine-tuned model."""

import logging
import math
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path

import pandas as pd
import transformers
from torch import Tensor
from transformers import PretrainedConfig, TextClassificationPipeline, pipeline

from lib.backbones.heads.model import TaskModel
from lib.backbones.heads.pair_classification import PairClassification
from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.stored import open_config, open_model
from lib.core.errors import RunError
from lib.core.files import atomic_path
from lib.data.cutting import encode_cut_pairs
from lib.data.encoding import encode
from lib.data.padding import pad_examples
from lib.data.readers import Record, read_records
from lib.data.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

PREFIX = "probability_"
"""Prefix of the columns of all classes if a class has the name of another column."""


class _Classification(TextClassificationPipeline):
    """Truncates texts as the run of the model did."""

    def preprocess(self, inputs: Record, max_length: int) -> dict[str, Tensor]:
        """Return the tokens of a document, or of the texts of a pair read separately, each [1, N]."""
        tokenizer = TextTokenizer(self.tokenizer)
        if inputs.text_pair is None:
            return encode([inputs.text], tokenizer, max_length)
        if _has(PairClassification, self.model.config):
            first, second = (encode([text], tokenizer, max_length) for text in (inputs.text, inputs.text_pair))
            return first | {"pair_ids": second["input_ids"], "pair_mask": second["attention_mask"]}
        (ids,), (segments,) = encode_cut_pairs(tokenizer, [(inputs.text, inputs.text_pair)], max_length)
        batch = pad_examples(
            [{"id": inputs.id, "input_ids": ids, "token_type_ids": segments}], self.tokenizer.pad_token_id
        )
        if getattr(self.model.config, "token_types", 0) < 2:
            del batch["token_type_ids"]
        return batch


def _has(head: type[TaskModel], config: PretrainedConfig) -> bool:
    """Whether a model was saved with a head."""
    return any(name.endswith(f"For{head.__name__}") for name in config.architectures or [])


def _columns(labels: Iterable[str]) -> dict[str, str]:
    """Return the columns of the classes: their names, all with `PREFIX` if one is the name of another column."""
    labels = list(labels)
    prefix = PREFIX if {"id", "label"} & set(labels) else ""
    return {label: f"{prefix}{label}" for label in labels}


def predict(
    model: str | Path,
    source: str | Path,
    target: str | Path,
    *,
    column: str = "text",
    pair_column: str | None = None,
    max_tokens: int | None = None,
    batch_size: int = 8,
    device: str | None = None,
) -> None:
    """Write the predicted label and the probability of every class of each document, or its predicted number.

    Args:
        model: model folder of a fine-tuning run.
        source: documents, in any format of `lib.data.formats`; a text file has one per line.
        target: CSV to appear, in the order of `source`: `id`, `label` and a column for each class, or, of a regression,
            `id` and `prediction`. Columns of classes begin with `PREFIX` if a class is called `id` or `label`.
        column: column of the text, where the format has columns.
        pair_column: column of the second texts, if documents are pairs; read as in the run of the model.
        max_tokens: tokens that a document is cut to, or each text of a pair that is read separately; None = as in the
            run of the model.
        batch_size: documents at once.
        device: `cpu`, `cuda`, ...; None = a GPU if there is one.

    Raises:
        RunError: the folder has no complete fine-tuned model; or the model reads pairs separately, and no pairs are
            given; or a prediction is NaN or inf.
        ConfigError: pairs leave no room for their tokens.
        DataError: the documents or the tokeniser cannot be read.
    """
    path = Path(model)
    config = open_config(path)
    head = next((head for head in (SequenceClassification, PairClassification) if _has(head, config)), None)
    if head is None:
        raise RunError(
            f"{path}: holds a model of {', '.join(config.architectures or []) or 'no known kind'}, which does not "
            "classify documents. Expected that of a run of sequence_classification, pair_classification or regression."
        )
    if head is PairClassification and pair_column is None:
        raise RunError(f"{path}: reads two texts of each document. Name the column of the second ones.")
    tokenizer = TextTokenizer.of_model(path, config.vocab_size)
    records = list(read_records({Path(source).stem: [source]}, text=column, text_pair=pair_column))
    classify = pipeline(
        "text-classification",
        model=open_model(getattr(transformers, head.auto_model), path),
        tokenizer=tokenizer.backend,
        trust_remote_code=False,
        device=device,
        top_k=None,
        pipeline_class=_Classification,
    )
    limit = max_tokens or classify.tokenizer.model_max_length
    # Documents of similar length share a batch; the longest come first, so that a lack of memory shows at once.
    order = sorted(
        range(len(records)), key=lambda index: -len(records[index].text) - len(records[index].text_pair or "")
    )
    scores = classify((records[index] for index in order), batch_size=batch_size, max_length=limit)
    named = _columns(config.id2label.values())
    rows: dict[int, dict[str, float | str]] = {}
    for index, result in zip(order, scores, strict=True):
        if not all(math.isfinite(entry["score"]) for entry in result):
            raise RunError(
                f"{path}: its scores of the document {records[index].id} are NaN or inf. Expected finite ones; run the "
                "stage again with precision fp32 or bf16, or with a lower learning rate."
            )
        rows[index] = {"id": records[index].id}
        if config.problem_type == "regression":
            rows[index]["prediction"] = result[0]["score"]
        else:
            rows[index]["label"] = result[0]["label"]
            rows[index] |= {named[entry["label"]]: entry["score"] for entry in sorted(result, key=itemgetter("label"))}
    with atomic_path(target) as partial:
        pd.DataFrame([rows[index] for index in range(len(records))]).to_csv(partial, index=False)
    logger.info("%s: %d documents, cut to %d tokens", target, len(records), limit)
