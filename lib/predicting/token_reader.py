"""Models that read tokens: encoders and encoder-decoders, with their heads."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd
import torch
import transformers
from transformers import PreTrainedModel

from lib.attention.kernels import set_kernels
from lib.backbones.configuration import BackboneConfig
from lib.backbones.faster import use_onednn
from lib.backbones.settings import BACKBONES
from lib.backbones.stored import open_config, open_model
from lib.core.errors import ConfigError, RunError
from lib.core.randomness import derive_seed
from lib.predicting.contract import Reader, silent
from lib.preparing.parts import part_schema
from lib.reading.readers import Record
from lib.study.reader import START, ReaderSettings
from lib.tasks.contract import Task
from lib.tokens.cutting import WHOLE
from lib.tokens.stored import TokenDataset, sorted_by_length
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokens_of
from lib.training.predictor import Observer, Predictor, require_finite


class TokenReader(Reader):
    """A trained model that reads tokens; arguments and errors are those of `open_reader`."""

    def __init__(
        self,
        folder: Path,
        settings: ReaderSettings,
        *,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__(folder, settings)
        config = open_config(folder)
        if not isinstance(config, BackboneConfig):
            raise RunError(f"{folder}: is a model of transformers, which its pipeline reads. Expected one of a run.")
        self.tokenizer = TextTokenizer.of_model(folder, config.vocab_size)
        longest = config.parameters.longest()
        limit = max_tokens or settings.max_tokens or longest or WHOLE
        if longest is not None and limit > longest:
            raise ConfigError(f"max_tokens = {limit}, but {folder} reads at most {longest}. Expected no more.")
        self.limit = limit
        where = _device(device)
        changes: dict[str, object] = {"device": "cpu" if where.type == "cpu" else "auto"}
        if batch_size is not None and limit < WHOLE:
            changes["micro_batch_tokens"] = batch_size * limit
        execution = settings.execution.model_copy(update=changes)
        settings = settings.model_copy(update={"execution": execution})
        model = _opened(folder, config, settings, self.task)
        set_kernels(model, settings.execution.kernels)
        if settings.execution.kernels == "auto":
            use_onednn(model)
        self.predictor = Predictor(settings, self.task, model.to(where), self.tokenizer.backend)

    def predictions(self, records: Sequence[Record], read: Callable[[int], object] = silent) -> pd.DataFrame:
        """See `Reader.predictions`; the longest documents come first, in the batches of an evaluation."""
        task, paired = self.settings.task, self.settings.texts != "single"
        schema = part_schema(task.label_form, paired=paired)
        rows: list[dict[str, Any]] = [
            # Numbers, since several documents may have the same id.
            {"id": str(place), "text": each.text, "label": None, "text_pair": each.text_pair or ""}
            for place, each in enumerate(records)
        ]
        separately, stride = self.settings.texts == "separately", self.settings.window_stride or 0.5
        tokens = sorted_by_length(
            tokens_of(rows, schema, self.tokenizer, cast(int, self.limit), stride, separately=separately)
        )
        dataset = TokenDataset(tokens)
        sizes = [len({tokens[place]["id"] for place in batch}) for batch in self.predictor.evaluation_batches(dataset)]
        self.predictor.observers = [_Told(read, sizes)]
        output = self.predictor.predict(dataset, "test")
        require_finite(output, [records[int(place)].id for place in tokens["id"]], self.folder)
        found = self.task.predictions(tokens, output)
        found = found.set_index(found["id"].astype(int)).sort_index()
        return found.assign(id=[each.id for each in records]).reset_index(drop=True)


class _Told(Observer):
    """Tells the number of documents of each batch."""

    def __init__(self, read: Callable[[int], object], sizes: Sequence[int]) -> None:
        self._read, self._sizes = read, iter(sizes)

    def predicted_batch(self, trainer: Any) -> None:
        """See `Observer.predicted_batch`."""
        self._read(next(self._sizes))


def _opened(folder: Path, config: BackboneConfig, settings: ReaderSettings, task: Task) -> PreTrainedModel:
    """Return the model with the weights of its folder, or with those that its run evaluated."""
    auto = getattr(transformers, task.auto_model())
    if not (folder / START).is_dir():
        model = open_model(auto, folder).eval()
        for weight in filter(torch.is_floating_point, model.parameters()):
            # In memory of its own, as in training: the last digits of some products depend on where a file was mapped.
            weight.data = weight.data.clone()
        return model
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed("weights", settings.seed) % 2**32)  # as `assemble` draws what weights lack
        model = auto.from_config(config)
    backbone = BACKBONES.load(settings.backbone.kind, "backbone").Backbone(config.parameters, seed=settings.seed)
    backbone.load_weights(model, folder / START, with_head=settings.task.trains_on is not None)
    return model.eval()


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or torch.accelerator.current_accelerator() or "cpu")
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise RunError(f"device {name}: cannot be used ({reason}). Expected one such as cpu or cuda.") from error
    return device
