"""Whole small trainings: what they leave, what they keep, what they refuse."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from comparing import same, weights
from transformers import pipeline

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError, RunError
from lib.core.record import read_record
from lib.evaluation.metrics import classification_metrics
from lib.tasks.settings import TASKS
from lib.tokens.stored import load_tokens
from lib.training.run import train

ROOT = Path(__file__).resolve().parents[2]
LSH = {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}
MAX_TOKENS = 32


def program(name):
    return runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))["main"]


@pytest.fixture(scope="module")
def tagging(settings, tmp_path_factory):
    """The folder of a training on labelled words."""
    folder = tmp_path_factory.mktemp("tagging")
    values = settings("tag", recipe={"epochs": 6, "learning_rate": 5e-3, "batch_size": 16})
    (folder / "tag.yaml").write_text(yaml.safe_dump(values))
    program("train")(["--config", str(folder / "tag.yaml"), "--out", str(folder / "tag")])
    return folder / "tag"


@pytest.fixture(scope="module")
def stages(settings, tmp_path_factory):
    """The folders of a pretraining and of the fine-tuning that starts from it, each by its script."""
    folder = tmp_path_factory.mktemp("stages")
    common = {"model": "lsh-h2-c8", "seed": 3, "backbone": {"mechanism": LSH}}
    recipe = {"epochs": 3, "learning_rate": 2e-3, "batch_size": 16}
    start = {"run": str(folder / "pretrain"), "checkpoint": str(folder / "pretrain" / "model")}
    configs = {
        "pretrain": settings("pretrain", **common, recipe=recipe),
        "finetune": settings(
            "finetune", **common, recipe=recipe | {"freeze_layers": 1, "head_lr_multiplier": 2.0}, start=start
        ),
    }
    for stage, values in configs.items():
        config = folder / f"{stage}.yaml"
        config.write_text(yaml.safe_dump(values))
        program("train")(["--config", str(config), "--out", str(folder / stage)])
    return folder


def test_a_pretraining_leaves_its_record(stages):
    out = stages / "pretrain"
    assert {path.name for path in out.iterdir()} == {"config.yaml", "history.csv", "run.json", "model"}
    record = read_record(out)
    history = pd.read_csv(out / "history.csv")
    assert record.steps == 3 * 192 // 16 == history["step"].iloc[-1]
    assert record.epochs == len(history) == 3
    assert record.metrics["train_loss"] == pytest.approx(history["train_loss"].min())
    assert record.metrics["eval_perplexity"] == pytest.approx(np.exp(record.metrics["eval_loss"]))
    assert record.seconds == pytest.approx(history["seconds"].sum())
    assert record.peak_memory_kind == "resident"
    assert record.peak_memory_mb > 100
    assert record.parameters["total"] == record.parameters["backbone"] + record.parameters["head"]
    assert set(record.parents) == {"tokenizer", "train", "validation"}


def test_tokens_are_the_real_ones_of_all_epochs(stages, corpus):
    assert read_record(stages / "pretrain").tokens == 3 * sum(load_tokens(corpus / "tokens" / "train")["length"])


def test_the_record_holds_the_share_of_documents_that_were_hashed(stages, corpus):
    lengths = load_tokens(corpus / "tokens" / "train")["length"][:]
    share = sum(length > 2 * LSH["chunk_size"] for length in lengths) / len(lengths)
    assert 0 < share < 1
    assert [read_record(stages / stage).approximated for stage in ("pretrain", "finetune")] == [share, share]


def test_training_learns(stages):
    history = pd.read_csv(stages / "pretrain" / "history.csv")
    assert history["train_loss"].is_monotonic_decreasing
    assert read_record(stages / "finetune").metrics["test_f1_macro"] > 0.8


def test_a_finetuning_keeps_the_best_epoch_and_tests_it(stages):
    out = stages / "finetune"
    record, history = read_record(out), pd.read_csv(out / "history.csv")
    best = history["eval_f1_macro"].idxmax()
    assert record.metrics["best_epoch"] == best + 1
    assert record.metrics["eval_f1_macro"] == pytest.approx(history["eval_f1_macro"][best])
    predictions = pd.read_parquet(out / "predictions.parquet")
    assert predictions.groupby("split").size().to_dict() == {"validation": 40, "test": 40}
    for split, prefix in (("validation", "eval"), ("test", "test")):
        rows = predictions[predictions["split"] == split]
        found = classification_metrics(rows["label"], np.stack(rows["probabilities"]), ["low", "high"])
        assert found["f1_macro"] == pytest.approx(record.metrics[f"{prefix}_f1_macro"])
    assert record.parents["start"].path == str(stages / "pretrain" / "model")
    assert set(record.shared) == {"validation", "test"}
    assert not read_record(stages / "pretrain").shared


def test_words_are_learnt_to_be_told_by_their_context(tagging):
    """A word's class is a matter of the word before it, so that the word itself tells nothing."""
    record, history = read_record(tagging), pd.read_csv(tagging / "history.csv")
    assert record.metrics["test_accuracy"] > 0.9
    best = history["eval_accuracy"].idxmax()
    assert record.metrics["best_epoch"] == best + 1
    for name in ("accuracy", "sequence_accuracy", "loss", "f1_macro"):
        assert record.metrics[f"eval_{name}"] == pytest.approx(history[f"eval_{name}"][best], rel=1e-5)


def test_predictions_of_words_are_one_list_per_document(tagging, tagged):
    record, predictions = read_record(tagging), pd.read_parquet(tagging / "predictions.parquet")
    assert sorted(predictions.columns) == ["group", "id", "label", "prediction", "split"]
    for split, prefix in (("validation", "eval"), ("test", "test")):
        rows = predictions[predictions["split"] == split].set_index("id")
        source = pd.read_parquet(tagged / f"{split}.parquet").set_index("id").loc[rows.index]
        assert len(rows) == 40
        # In order; the first word has no label, and one document of the test is cut.
        for found, labels in zip(rows["label"], source["label"], strict=True):
            assert found.tolist() == labels[1:MAX_TOKENS].tolist()
        assert rows["group"].tolist() == source["group"].tolist()
        right = [found == labels for found, labels in zip(rows["prediction"], rows["label"], strict=True)]
        assert record.metrics[f"{prefix}_accuracy"] == pytest.approx(np.concatenate(right).mean())
        whole = np.mean([row.all() for row in right])
        assert record.metrics[f"{prefix}_sequence_accuracy"] == pytest.approx(whole)


def test_a_model_of_words_is_used_as_any_of_transformers(tagging):
    """`low` and `high` are the halves of the ten words that it knows, and tell of the word before."""
    tagger = pipeline("token-classification", model=str(tagging / "model"))
    found = tagger("bal bat ban  ber bel bam")
    assert [entry["word"] for entry in found] == ["bal", "bat", "ban", "ber", "bel", "bam"]
    assert [entry["entity"] for entry in found][1:] == ["low", "high", "low", "high", "high"]


def test_only_a_model_that_classifies_documents_predicts_their_classes(tagging, stages, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("bal bat ban\n")
    for folder, kind in ((tagging, "TokenClassification"), (stages / "pretrain", "MaskedLM")):
        with pytest.raises(RunError, match=f"EncoderFor{kind}, which does not classify documents"):
            program("tools/predict")(
                ["--model", str(folder / "model"), "--input", str(texts), "--out", str(tmp_path / "x")]
            )
    assert not (tmp_path / "x").exists()


def test_a_run_is_repeated_by_its_own_config(stages, tmp_path):
    program("train")(["--config", str(stages / "pretrain" / "config.yaml"), "--out", str(tmp_path / "again")])
    assert same(stages / "pretrain" / "model", tmp_path / "again" / "model")


def test_a_finished_run_is_not_overwritten(stages):
    before = (stages / "pretrain" / "run.json").read_bytes()
    with pytest.raises(RunError, match="finished run.*--out another"):
        program("train")(["--config", str(stages / "pretrain.yaml"), "--out", str(stages / "pretrain")])
    assert (stages / "pretrain" / "run.json").read_bytes() == before


def test_new_documents_are_predicted_as_in_the_run(stages, corpus, tmp_path):
    """Also those that are longer than every training document, cut where the run cut its own."""
    source = pd.read_parquet(corpus / "test.parquet")
    longest = max(load_tokens(corpus / "tokens" / "train")["length"])
    assert longest < load_tokens(corpus / "tokens" / "test")["length"][0] < MAX_TOKENS
    assert load_tokens(corpus / "tokens" / "test")["length"][1] == MAX_TOKENS
    options = ["--model", str(stages / "finetune" / "model"), "--input", str(corpus / "test.parquet")]
    program("tools/predict")([*options, "--out", str(tmp_path / "out.csv")])
    program("tools/predict")([*options, "--out", str(tmp_path / "cut.csv"), "--max-tokens", str(longest)])
    found, cut = (pd.read_csv(tmp_path / name) for name in ("out.csv", "cut.csv"))
    recorded = pd.read_parquet(stages / "finetune" / "predictions.parquet").query("split == 'test'").set_index("id")
    expected = np.stack(recorded.loc[source["id"], "probabilities"])
    np.testing.assert_allclose(found[["low", "high"]], expected, atol=1e-6)
    different = (cut["high"] - found["high"]).abs() > 1e-5
    assert different.tolist() == [True, True] + [False] * 38


def test_prediction_of_new_documents(stages, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("bal bel bil bol bul\n" + "gut kus kur " * 200 + "\nbal bel\n")
    program("tools/predict")(
        ["--model", str(stages / "finetune" / "model"), "--input", str(texts), "--out", str(tmp_path / "out.csv")]
    )
    found = pd.read_csv(tmp_path / "out.csv")
    assert list(found.columns) == ["id", "label", "high", "low"]
    assert found["label"].tolist() == ["high", "low", "high"]
    np.testing.assert_allclose(found["high"] + found["low"], 1, atol=1e-5)
    table = tmp_path / "table.csv"
    pd.DataFrame({"review": ["bal bel bil bol bul", "gut kus kur " * 200]}).to_csv(table, index=False)
    program("tools/predict")(
        ["--model", str(stages / "finetune" / "model"), "--input", str(table), "--column", "review",
         "--out", str(tmp_path / "out2.csv")]
    )  # fmt: skip
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out2.csv")["high"], found["high"][:2], atol=1e-5)


def test_multipliers_scale_the_steps(run_of, tmp_path):
    still = run_of("finetune", recipe={"epochs": 1, "backbone_lr_multiplier": 0.0, "head_lr_multiplier": 1.0})
    train(still, tmp_path / "still")
    train(run_of("finetune", recipe={"epochs": 1, "head_lr_multiplier": 0.0}), tmp_path / "moving")
    still, moved = (weights(tmp_path / name / "model") for name in ("still", "moving"))
    for name, weight in still.items():
        in_encoder = name.startswith("encoder.")
        if "bias" not in name:
            assert not torch.equal(weight, moved[name]), name
        if in_encoder and "norm" not in name and "bias" not in name:
            assert float(weight.std()) == pytest.approx(0.02, rel=0.2), f"{name} left its initial spread"


@pytest.mark.parametrize("stage", ["pretrain", "tag"])
def test_the_held_out_loss_is_that_of_a_token_or_word(stage, run_of, tmp_path):
    """One document to a batch or all at once: the mean over predicted tokens, or labelled words, is the same."""
    losses = []
    for tokens in (32, 4096):
        run = run_of(stage, recipe={"epochs": 1, "learning_rate": 1e-9}, execution={"micro_batch_tokens": tokens})
        train(run, tmp_path / str(tokens))
        losses.append(read_record(tmp_path / str(tokens)).metrics["eval_loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_start_with_another_architecture_is_refused(run_of, stages, tmp_path):
    start = {"run": str(stages / "pretrain"), "checkpoint": str(stages / "pretrain" / "model")}
    run = run_of("finetune", start=start)
    with pytest.raises(RunError, match="shares queries and keys"):
        train(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_resume_needs_a_working_checkpoint(run_of, stages, tmp_path):
    start = {
        "run": str(stages / "pretrain"),
        "checkpoint": str(stages / "pretrain" / "model"),
        "load_only_model_state": False,
    }
    run = run_of("pretrain", start=start)
    with pytest.raises(RunError, match="manifest.json cannot be read .No such file.*load_only_model_state"):
        train(run, tmp_path / "out")


def test_a_loss_that_is_no_number_stops_the_run(run_of, tmp_path):
    run = run_of("pretrain", recipe={"learning_rate": 1e9, "max_grad_norm": 0})
    with pytest.raises(RunError, match="training loss up to step 6 is nan"):
        train(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bf16_trains_on_a_cpu(run_of, tmp_path):
    run = run_of("pretrain", recipe={"epochs": 1}, precision="bf16")
    train(run, tmp_path / "out")
    record = read_record(tmp_path / "out")
    assert record.precision == "bf16"
    assert np.isfinite(record.metrics["eval_loss"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize(
    ("changes", "message"),
    [({"precision": "fp16"}, "'fp16', which needs a GPU"), ({"execution": {"device": "cuda"}}, "torch sees no GPU")],
)
def test_what_needs_a_gpu_says_so(run_of, tmp_path, changes, message):
    run = run_of("pretrain", **changes)
    with pytest.raises(RunError, match=message):
        train(run, tmp_path / "out")


def problems(path, tmp_path):
    with pytest.raises(ConfigError) as error:
        program("train")(["--config", str(path), "--out", str(tmp_path / "out")])
    assert not list(tmp_path.glob("*out*"))
    return str(error.value)


def test_settings_are_checked_with_all_problems_at_once(config_file, tmp_path):
    """Those of single fields first, then those of fields that do not fit together."""
    path = config_file(
        "pretrain",
        recipe={"epochs": 0, "learning_speed": 1},
        backbone={"num_attention_heads": 3, "mechanism": {"kind": "sdpa", "chunk_size": 3}},
        start={"load_only_model_state": False},
        precision="fp64",
        stagger=1,
    )
    found = problems(path, tmp_path)
    for part in (
        "recipe.epochs: Input should be greater than 0. Found 0",
        "recipe.learning_speed: unknown key",
        "backbone.mechanism.chunk_size: unknown key",
        "start.checkpoint: missing",
        "precision: Input should be 'fp32', 'bf16' or 'fp16'. Found 'fp64'",
        "stagger: unknown key",
    ):
        assert part in found
    path = config_file(
        "pretrain",
        recipe={"keep": ["state"], "freeze_epochs": 1},
        backbone={"num_attention_heads": 3},
        task={"mask_token_probability": 0.95},
    )
    found = problems(path, tmp_path)
    for part in (
        "recipe: keep = ['state'] names no model",
        "num_attention_heads = 3 does not divide",
        "task: mask_token_probability + random_token_probability = 1.05",
    ):
        assert part in found


def test_parts_that_do_not_fit_each_other_are_named_at_once(config_file, tmp_path):
    path = config_file("finetune", labels=None, tokenizer=None, data={"train": "nowhere"}, backbone={"kind": "encoder"})
    values = yaml.safe_load(path.read_text())
    values["data"].pop("validation")
    path.write_text(yaml.safe_dump(values))
    found = problems(path, tmp_path)
    for part in ("labels are missing", "tokenizer is missing", "data: validation is missing"):
        assert part in found


def test_an_unknown_kind_is_named_with_those_that_there_are(config_file, tmp_path):
    found = problems(config_file("finetune", task={"kind": "poetry"}, backbone={"kind": "spine"}), tmp_path)
    assert f"'poetry' is not a known task. Expected one of: {', '.join(TASKS.kinds())}" in found
    assert f"'spine' is not a known backbone. Expected one of: {', '.join(BACKBONES.kinds())}" in found


def test_what_does_not_train_is_sent_elsewhere(config_file, tmp_path):
    path = config_file("pretrain", recipe=None)
    assert "the backbone encoder cannot do masked_lm without a recipe" in problems(path, tmp_path)
