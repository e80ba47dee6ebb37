"""Classification of whole documents by a model that writes a text for each class.

Shapes: B batch, T tokens written, n documents, C classes.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from scipy.special import softmax
from torch import Tensor
from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from lib.core.labels import IGNORED
from lib.evaluation.metrics import classification_metrics, decision_metrics
from lib.tasks import contract
from studies.hate_speech.tasks.text_to_text.decoding import log_likelihoods, write
from studies.hate_speech.tasks.text_to_text.settings import Settings
from studies.hate_speech.tokens.text_to_text import Targets, TextToTextCollator


class Task(contract.Task):
    """Generate the text of a document's class. The best epoch has the highest macro-F1 on validation.

    The loss is the mean cross-entropy of the target tokens. Both readings are computed for every predicted document; a
    setting selects the one that decides.
    """

    best: ClassVar[str] = "f1_macro"
    parameters: Settings

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        return "AutoModelForSeq2SeqLM"

    def model_options(self) -> dict[str, Any]:
        """See `lib.tasks.contract.Task.model_options`: names of the classes."""
        return self.class_names()

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`.

        Raises:
            ConfigError: the tokeniser cannot write a target, or gives two the same tokens.
        """
        self._targets = Targets(tokenizer, self.parameters.targets)
        return TextToTextCollator(tokenizer, self.parameters.prefix, self._targets)

    def begin(self, split: str, tokens: Dataset) -> None:
        """See `lib.tasks.contract.Task.begin`: resets the clocks."""
        self._seconds = {"likelihood": 0.0, "generation": 0.0}

    def prediction_step(
        self, model: PreTrainedModel, inputs: Mapping[str, Tensor]
    ) -> tuple[None, tuple[Tensor, Tensor], Tensor]:
        """Return, for each document, log-likelihoods [B, C] and generated tokens [B, T], and its class [B].

        A document without a label has the class -100.
        """
        documents = inputs["input_ids"], inputs.get("attention_mask")
        with self._clock("likelihood", model.device):
            likelihoods = log_likelihoods(model, *documents, self._targets.ids)
        with self._clock("generation", model.device):
            written = write(model, *documents, longest=self._targets.longest, end=self._targets.end)
        table = self._targets.labels(range(len(self._targets.ids))).to(written.device)
        matches = (inputs["labels"][:, None] == table).all(dim=-1)
        classes = matches.int().argmax(dim=1).where(matches.any(dim=1), IGNORED)
        return None, (likelihoods, written), classes

    @contextmanager
    def _clock(self, reading: str, device: torch.device) -> Iterator[None]:
        """Add the time spent in this context to that of a way to decide."""

        def now() -> float:
            if device.type != "cpu":  # a GPU computes after the call has returned
                torch.accelerator.synchronize(device)
            return time.perf_counter()

        start = now()
        yield
        self._seconds[reading] += now() - start

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return `classification_metrics` of the deciding reading, and further scores.

        `likelihood_f1_macro` and `generation_f1_macro` are those of the two readings, `unparsed` the number of
        documents whose generated text is not a target, `likelihood_seconds` and `generation_seconds` the
        time of each reading, and `loss` the mean over target tokens. If the generated text decides, there is no
        `top_3_accuracy` nor `top_5_accuracy`: a text is one class, and ranks no others.
        """
        (likelihoods, written), labels = prediction.predictions, prediction.label_ids
        scores = classification_metrics(labels, softmax(likelihoods, axis=-1), self.labels)
        if self.parameters.reading == "generation":
            scores = {name: score for name, score in scores.items() if not name.startswith("top_")}
        predictions = self._readings(likelihoods, written)
        decisions = {name: decision_metrics(labels, found, self.labels) for name, found in predictions.items()}
        lengths = np.array([len(ids) for ids in self._targets.ids])
        of_targets = np.take_along_axis(likelihoods.astype(np.float64), labels[:, None], axis=1)
        return {
            **scores,
            **decisions[self.parameters.reading],
            **{f"{name}_f1_macro": found["f1_macro"] for name, found in decisions.items()},
            "unparsed": float((predictions["generation"] < 0).sum()),
            "loss": float(-of_targets.sum() / lengths[labels].sum()),
            **{f"{name}_seconds": seconds for name, seconds in self._seconds.items()},
        }

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.predictions`.

        `probabilities` are those of the likelihoods, `generated` is the generated text. `prediction` is -1 if that text
        decides and is not a target.
        """
        likelihoods, written = output.predictions
        known = pd.Series(tokens["label"][:])
        columns = {
            "id": tokens["id"][:],
            "label": known.astype("Int64") if known.isna().any() else known,
            "prediction": self._readings(likelihoods, written)[self.parameters.reading],
            "probabilities": list(softmax(likelihoods, axis=-1).astype(np.float32)),
            "generated": self._targets.read(written)[0],
        }
        return pd.DataFrame(columns | contract.groups(tokens))

    def _readings(self, likelihoods: np.ndarray, written: np.ndarray) -> dict[str, np.ndarray]:
        """Return the classes [n] by reading; -1 = none."""
        return {"likelihood": likelihoods.argmax(axis=-1), "generation": self._targets.read(written)[1]}
