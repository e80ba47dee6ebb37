"""Masked language modelling: pretraining, and adaptation to a dataset's texts. They differ in data and start only."""

from pathlib import Path

from lib.backbones.encoder.loading import load_weights
from lib.backbones.encoder.masked_lm import EncoderForMaskedLM
from lib.core.settings.run import MlmRun
from lib.data.masking import MlmCollator, TokenMasker
from lib.data.tokenizer import WordPieceTokenizer
from lib.data.tokens import TokenDataset
from lib.training.callbacks import TimedCheckpoints
from lib.training.run import RunFolders, encoder_config, finish, load_split, place_trackers, seed_everything, train
from lib.training.trainer import MlmTrainer, training_arguments


def train_masked_lm(run: MlmRun, out: str | Path, work: str | Path | None = None) -> None:
    """Train `run` and leave its record in `out`.

    Args:
        run: the run's settings.
        out: new folder of the results.
        work: folder under which working checkpoints are kept while the run is under way; None = beside `out`.

    Raises:
        ProjectError: the data, the start or the folders do not allow the run.
    """
    folders = RunFolders(run, out, work)
    place_trackers(run, folders)
    tokenizer = WordPieceTokenizer.load(run.tokenizer)
    train_tokens, validation_tokens = load_split(run.data["train"]), load_split(run.data["validation"], sort=True)
    lengths = train_tokens["length"][:]

    seed_everything(run.seed)
    model = EncoderForMaskedLM(encoder_config(run, tokenizer))
    if run.start is not None and run.start.load_only_model_state:
        load_weights(model, run.start.checkpoint)

    masker = TokenMasker.of(tokenizer.backend, run.masking, run.seed)
    trainer = MlmTrainer(
        model=model,
        args=training_arguments(
            work=str(folders.work),
            name=f"{run.stage}/{run.model}/{run.dataset}/seed-{run.seed}",
            seed=run.seed,
            precision=run.precision,
            optimisation=run.optimisation,
            execution=run.execution,
            longest=max(lengths),
        ),
        lengths=lengths,
        train_dataset=TokenDataset(train_tokens),
        eval_dataset=TokenDataset(validation_tokens),
        data_collator=MlmCollator(masker, tokenizer.backend.pad_token_id),
        callbacks=[TimedCheckpoints(run.execution.checkpoint_minutes)],
    )
    train(trainer, run, folders)
    rows = trainer.recorder.rows
    metrics = {
        "train_loss": min(row["train_loss"] for row in rows),
        "eval_loss": rows[-1].get("eval_loss"),
        "eval_perplexity": rows[-1].get("eval_perplexity"),
    }
    finish(run=run, folders=folders, trainer=trainer, tokenizer=tokenizer, metrics=metrics)
