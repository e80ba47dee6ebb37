"""Fine-tuning for classification: the epoch with the best validation macro-F1 is kept and tested once."""

from pathlib import Path

import numpy as np
import pandas as pd
from datasets import Dataset
from scipy.special import softmax
from transformers import EvalPrediction

from lib.backbones.encoder.loading import load_weights
from lib.backbones.encoder.sequence_classification import EncoderForSequenceClassification
from lib.core.record import PREDICTIONS
from lib.core.settings.finetune_run import FinetuneRun
from lib.data.classification import ClassificationCollator
from lib.data.tokenizer import WordPieceTokenizer
from lib.data.tokens import TokenDataset
from lib.evaluation.metrics import classification_metrics
from lib.training.callbacks import Freezing, TimedCheckpoints, quality_figures
from lib.training.run import RunFolders, encoder_config, finish, load_split, place_trackers, seed_everything, train
from lib.training.trainer import KeyedTrainer, training_arguments

BEST = "f1_macro"


def finetune(run: FinetuneRun, out: str | Path, work: str | Path | None = None) -> None:
    """Fine-tune `run` and leave its record, with predictions for validation and test, in `out`.

    Args:
        run: the run's settings.
        out: new folder of the results.
        work: folder under which working checkpoints are kept while the run is under way; None = beside `out`.

    Raises:
        ProjectError: the data, the start or the folders do not allow the run.
    """
    folders = RunFolders(run, out, work)
    place_trackers(run, folders)
    recipe = run.optimisation
    tokenizer = WordPieceTokenizer.load(run.tokenizer)
    train_tokens = load_split(run.data["train"])
    held_out = {split: load_split(run.data[split], sort=True) for split in ("validation", "test")}
    lengths = train_tokens["length"][:]

    seed_everything(run.seed)
    names = dict(enumerate(run.labels))
    model = EncoderForSequenceClassification(
        encoder_config(
            run,
            tokenizer,
            **recipe.head.model_dump(),
            id2label=names,
            label2id={name: label for label, name in names.items()},
        )
    )
    if run.start is not None and run.start.load_only_model_state:
        load_weights(model, run.start.checkpoint)

    def learning_rate_multiplier(weight: str) -> float:
        in_encoder = weight.startswith(f"{model.base_model_prefix}.")
        return recipe.backbone_lr_multiplier if in_encoder else recipe.head_lr_multiplier

    def metrics_of(prediction: EvalPrediction) -> dict[str, float]:
        return classification_metrics(prediction.label_ids, softmax(prediction.predictions, axis=-1), run.labels)

    callbacks = [TimedCheckpoints(run.execution.checkpoint_minutes)]
    if recipe.frozen_epochs:
        callbacks.append(Freezing(recipe.freeze_layers, recipe.freeze_embeddings, recipe.frozen_epochs))
    trainer = KeyedTrainer(
        model=model,
        args=training_arguments(
            work=str(folders.work),
            name=f"{run.stage}/{run.model}/{run.dataset}/seed-{run.seed}",
            seed=run.seed,
            precision=run.precision,
            optimisation=recipe,
            execution=run.execution,
            longest=max(lengths),
            load_best_model_at_end=True,
            metric_for_best_model=BEST,
            greater_is_better=True,
        ),
        lengths=lengths,
        learning_rate_multiplier=learning_rate_multiplier,
        train_dataset=TokenDataset(train_tokens),
        eval_dataset=TokenDataset(held_out["validation"]),
        data_collator=ClassificationCollator(tokenizer.backend.pad_token_id),
        compute_metrics=metrics_of,
        callbacks=callbacks,
    )
    train(trainer, run, folders)

    frames, metrics = [], {"best_epoch": _best_epoch(trainer)}
    for split, prefix in (("validation", "eval"), ("test", "test")):
        output = trainer.predict(TokenDataset(held_out[split]), metric_key_prefix=prefix)
        frames.append(_predictions(held_out[split], output.predictions, split))
        metrics |= quality_figures(output.metrics, prefix)
    metrics["train_loss"] = min(row["train_loss"] for row in trainer.recorder.rows)
    finish(
        run=run,
        folders=folders,
        trainer=trainer,
        tokenizer=tokenizer,
        metrics=metrics,
        predictions={PREDICTIONS: pd.concat(frames, ignore_index=True)},
    )


def _best_epoch(trainer: KeyedTrainer) -> int:
    scores = [row[f"eval_{BEST}"] for row in trainer.recorder.rows]
    return 1 + int(np.argmax(scores))


def _predictions(tokens: Dataset, logits: np.ndarray, split: str) -> pd.DataFrame:
    probabilities = softmax(logits, axis=-1)
    return pd.DataFrame(
        {
            "id": tokens["id"][:],
            "label": tokens["label"][:],
            "prediction": probabilities.argmax(axis=-1),
            "probabilities": list(probabilities.astype(np.float32)),
            "split": split,
        }
    )
