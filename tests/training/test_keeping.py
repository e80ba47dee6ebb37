"""What is kept of a training: the best model, the last one, the optimiser's state to go on from."""

import shutil

import pandas as pd
import pytest
import torch
from comparing import assert_alike, same, weights
from datasets import load_from_disk
from killing import assert_trains_no_further, killed_at
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from lib.core.errors import RunError
from lib.core.files import write_json
from lib.core.record import read_record
from lib.study.run import Start
from lib.training.checkpoints import STATE, read_state, seal
from lib.training.predictor import Observer
from lib.training.run import train
from studies.hate_speech.schedule import learning_rates

SPEED = ["seconds", "tokens_per_second", "peak_memory_mb"]
AUTO_MODELS = {"pretrain": AutoModelForMaskedLM, "finetune": AutoModelForSequenceClassification}
RATES = {"pretrain": 0.3, "finetune": 5e-4}
CONSTANT = {"min_lr_ratio": 1.0, "warmup_ratio": 0.0}


def history(folder):
    return pd.read_csv(folder / "history.csv")


@pytest.fixture(scope="module")
def worsening(run_of, corpus, tmp_path_factory):
    """Return a run of a stage that becomes worse on validation while it trains, so that its last epoch is not its best.

    Pretraining steps too far; fine-tuning is validated on documents with the other class's label.
    """
    swapped = tmp_path_factory.mktemp("swapped") / "validation"
    load_from_disk(corpus / "tokens/validation").map(lambda row: {"label": 1 - row["label"]}).save_to_disk(swapped)

    def make(stage, **recipe):
        rising = {"epochs": 4, "learning_rate": RATES[stage], "min_lr_ratio": 1.0, "warmup_ratio": 1.0}
        data = {"validation": str(swapped)} if stage == "finetune" else {}
        return run_of(stage, recipe=rising | {"batch_size": 16} | recipe, data=data)

    return make


@pytest.fixture(scope="module")
def kept(worsening, tmp_path_factory):
    """Return the folder of a run that keeps what is named; the same training for all of a stage."""
    folders = {}

    def make(stage, *names):
        if (stage, names) not in folders:
            out = tmp_path_factory.mktemp(stage) / "out"
            train(worsening(stage, keep=list(names)), out)
            folders[stage, names] = out
        return folders[stage, names]

    return make


@pytest.mark.parametrize(("stage", "first", "second"), [("pretrain", "best", "last"), ("finetune", "last", "best")])
def test_models_in_the_order_of_their_names(stage, first, second, kept):
    both = kept(stage, first, second) / "model"
    assert same(both, kept(stage, first) / "model")
    assert same(both / second, kept(stage, second) / "model")
    assert not same(both, both / second)
    assert not (both / first).exists()
    assert not (both / "state").exists()
    for folder in (both, both / second):
        model = AUTO_MODELS[stage].from_pretrained(folder)
        AutoTokenizer.from_pretrained(folder)
        for name, weight in weights(folder).items():
            assert torch.equal(model.state_dict()[name], weight), name


@pytest.mark.parametrize(
    ("names", "stage", "metric", "sign"),
    [
        (("best",), "pretrain", "eval_loss", -1),
        (("last", "best"), "finetune", "eval_f1_macro", 1),
        (("best",), "finetune", "eval_f1_macro", 1),
        (("last",), "pretrain", "eval_loss", -1),
    ],
)
def test_figures_of_the_first_model_kept(names, stage, metric, sign, kept):
    out = kept(stage, *names)
    rows, record = history(out), read_record(out)
    best, last = (sign * rows[metric]).idxmax(), len(rows) - 1
    assert best != last, "this training shows nothing"
    if "best" in names:
        assert record.metrics["best_epoch"] == best + 1
    else:
        assert "best_epoch" not in record.metrics
    row = rows.loc[best if names[0] == "best" else last]
    assert record.metrics[metric] == pytest.approx(row[metric])
    assert rows[metric][best] != pytest.approx(rows[metric][last])
    if stage == "finetune":
        assert rows["test_f1_macro"].dropna().index.tolist() == [row.name]
        assert row["test_f1_macro"] == pytest.approx(record.metrics["test_f1_macro"])


@pytest.mark.extended
@pytest.mark.parametrize(("stage", "name"), [("pretrain", "last"), ("finetune", "best")])
def test_model_of_a_recipe_that_does_not_say(stage, name, worsening, kept, tmp_path):
    train(worsening(stage), tmp_path / "out")
    assert same(tmp_path / "out" / "model", kept(stage, name) / "model")
    assert not [path for path in (tmp_path / "out" / "model").iterdir() if path.is_dir()]


@pytest.mark.extended
def test_state_beside_the_best_model(kept):
    model = kept("finetune", "best", "state") / "model"
    assert same(model / "state", kept("finetune", "last") / "model")
    assert same(model, kept("finetune", "best") / "model")


@pytest.mark.extended
def test_patience(worsening, tmp_path, caplog):
    """Trains as without it, up to the second evaluation that is not better; what would thaw later stays frozen."""
    frozen = {"freeze_layers": 1, "freeze_epochs": 3, "evaluate_every": 6}
    train(worsening("finetune", **frozen), tmp_path / "whole")
    with caplog.at_level("INFO"):
        train(worsening("finetune", **frozen, patience=2), tmp_path / "out")
    expected, found = history(tmp_path / "whole"), history(tmp_path / "out")
    best = expected["eval_f1_macro"].cummax()
    waited = expected.groupby((best > best.shift(fill_value=-1)).cumsum()).cumcount()
    stop = expected["step"][waited == 2].iloc[0]
    assert stop < 36
    pd.testing.assert_frame_equal(found.drop(columns=SPEED), expected[expected["step"] <= stop].drop(columns=SPEED))
    whole, record = read_record(tmp_path / "whole"), read_record(tmp_path / "out")
    assert (record.steps, record.saved_steps, record.epochs) == (stop, 48 - stop, stop / 12)
    assert same(tmp_path / "out" / "model", tmp_path / "whole" / "model")
    assert f"stopped at step {stop} of 48" in caplog.text
    assert "saved_steps" not in (tmp_path / "whole" / "run.json").read_text()
    assert "trainable" in record.parameters.keys() - whole.parameters.keys()


@pytest.mark.extended
def test_patience_of_a_killed_training(worsening, tmp_path):
    run = worsening("finetune", evaluate_every=6, patience=2, class_weights="balanced", keep=["best", "state"])
    assert_trains_no_further(run, tmp_path)
    last = history(tmp_path / "out")["step"].iloc[-1]
    with killed_at(last - 1):
        train(run, tmp_path / "killed")
    train(run, tmp_path / "killed")
    for name in ("killed", "undisturbed"):
        assert_alike(tmp_path / "out", tmp_path / name)
        assert history(tmp_path / "out").drop(columns=SPEED).equals(history(tmp_path / name).drop(columns=SPEED))
        assert read_record(tmp_path / name).saved_steps == 48 - last
    train(go_on(run, tmp_path / "out", epochs=8), tmp_path / "further")  # which knows no best evaluation yet
    assert history(tmp_path / "further")["step"].iloc[-1] > last


def go_on(run, folder, *, weights_only=False, **recipe):
    """Return the settings of `run` changed such that it goes on from the state that `folder` keeps."""
    start = Start(run=str(folder), checkpoint=str(folder / "model" / "state"), load_only_model_state=weights_only)
    return run.model_copy(update={"start": start, "recipe": run.recipe.model_copy(update=recipe)})


@pytest.fixture(scope="module")
def halves(run_of, tmp_path_factory):
    """Settings of two epochs, and the folders of these and of four epochs in one go, at a constant learning rate."""
    folder = tmp_path_factory.mktemp("halves")
    run = run_of(
        "finetune",
        recipe=CONSTANT | {"keep": ["last", "state"]},
        backbone={"mechanism": {"kind": "favor", "nb_features": 8, "redraw_interval": 4}},
    )
    train(run, folder / "half")
    train(run.model_copy(update={"recipe": run.recipe.model_copy(update={"epochs": 4})}), folder / "whole")
    return run, folder / "half", folder / "whole"


@pytest.mark.extended
def test_finished_training_that_goes_on(halves, tmp_path):
    """As if it had never stopped, and on again."""
    run, half, whole = halves
    assert not same(half / "model", whole / "model")
    train(go_on(run, half, epochs=4), tmp_path / "out")
    assert same(tmp_path / "out" / "model", whole / "model")
    found, expected = history(tmp_path / "out"), history(whole)
    assert found["epoch"].tolist() == [1, 2, 3, 4]
    assert found["step"].tolist() == [6, 12, 18, 24]
    pd.testing.assert_frame_equal(found.drop(columns=SPEED), expected.drop(columns=SPEED))
    assert found["seconds"].tolist()[:2] == pytest.approx(history(half)["seconds"].tolist())
    records = [read_record(folder) for folder in (tmp_path / "out", whole)]
    assert records[0].metrics == pytest.approx(records[1].metrics)
    assert records[0].tokens == records[1].tokens
    assert records[0].parents["start"].path == str(half / "model" / "state")
    train(go_on(run, tmp_path / "out", epochs=5), tmp_path / "further")
    assert history(tmp_path / "further")["step"].tolist() == [6, 12, 18, 24, 30]


class Steps(Observer):
    """Notes the rates and decays of every step, and the moments of every weight before the first and after the last."""

    def __init__(self):
        self.rates, self.decays, self.first, self.last = [], set(), {}, {}

    def began(self, trainer):
        self.first = self.moments(trainer)

    def has_gradients(self, trainer):
        self.rates.append({group["lr"] for group in trainer.optimizer.param_groups})
        self.decays |= {group["weight_decay"] for group in trainer.optimizer.param_groups}

    def saved(self, trainer):
        self.last = self.moments(trainer)

    @staticmethod
    def moments(trainer):
        states = trainer.optimizer.state
        return {
            name: {key: value.clone() for key, value in states[weight].items()}
            for name, weight in trainer.model.named_parameters()
            if weight in states
        }


@pytest.mark.parametrize(
    ("before", "after", "decays"),
    [
        ("cosine", "one_cycle", (0.01, 0.3)),
        ("one_cycle", "cosine", (0.0, 0.3)),
        pytest.param("cosine", "cosine", (0.01, 0.0), marks=pytest.mark.extended),
    ],
)
def test_recipe_of_a_training_that_goes_on(before, after, decays, run_of, tmp_path):
    run = run_of(
        "finetune",
        recipe={"schedule": before, "min_lr_ratio": 0.0, "weight_decay": decays[0], "keep": ["last", "state"]},
        backbone={"num_hidden_layers": 1},
    )
    stopped, continued = Steps(), Steps()
    train(run, tmp_path / "half", observers=[stopped])
    changes = {"schedule": after, "learning_rate": 5e-4, "min_lr_ratio": 0.5, "warmup_ratio": 0.2}
    longer = go_on(run, tmp_path / "half", epochs=4, weight_decay=decays[1], **changes)
    train(longer, tmp_path / "out", observers=[continued])
    assert continued.rates == [{rate} for rate in learning_rates(longer.recipe.model_dump(), 24)[12:]]
    assert continued.decays == {0.0, decays[1]}
    assert continued.first.keys() == stopped.last.keys() != set()
    for name, moments in stopped.last.items():
        assert all(torch.equal(continued.first[name][key], value) for key, value in moments.items()), name


@pytest.mark.extended
def test_training_anew_and_best_of_the_new_epochs(halves, tmp_path):
    """Weights alone start anew; a state goes on, and forgets which epoch was the best so far."""
    run, half, whole = halves
    train(go_on(run, half, weights_only=True, epochs=2), tmp_path / "anew")
    assert history(tmp_path / "anew")["step"].tolist() == [6, 12]
    assert not same(tmp_path / "anew" / "model", whole / "model")
    train(go_on(run, half, epochs=4, keep=["best", "last"]), tmp_path / "out")
    rows, best = history(tmp_path / "out"), int(read_record(tmp_path / "out").metrics["best_epoch"])
    assert best == rows["eval_f1_macro"][2:].idxmax() + 1


@pytest.mark.extended
def test_states_that_no_training_goes_on_from(halves, corpus, tmp_path):
    """Nothing left to do, epochs of another number of steps, moments of another optimiser or none at all."""
    run, half, _ = halves
    load_from_disk(corpus / "tokens/train").select(range(96)).save_to_disk(tmp_path / "train")
    fewer = go_on(run, half, epochs=4).model_copy(update={"data": run.data | {"train": str(tmp_path / "train")}})
    state = shutil.copytree(half / "model" / "state", tmp_path / "other" / "model" / "state")
    write_json(state / STATE, read_state(state) | {"optimizer": "adamw_8bit"})
    seal(state)
    lacking = shutil.copytree(half / "model" / "state", tmp_path / "lacking" / "model" / "state")
    (lacking / "optimizer.pt").unlink()
    for refused, named in (
        (go_on(run, half, epochs=2), "recipe.epochs"),
        (go_on(run, half, epochs=4, batch_size=64), "batches of 64 make 3"),
        (fewer, "96 documents"),
        (go_on(run, tmp_path / "other", epochs=4), "adamw_8bit"),
        (go_on(run, tmp_path / "lacking", epochs=4), "optimizer.pt"),
    ):
        with pytest.raises(RunError, match=named):
            train(refused, tmp_path / "out")
    assert not (tmp_path / "out").exists()
