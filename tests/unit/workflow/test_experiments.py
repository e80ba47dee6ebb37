"""Experiments by hand: `new_experiment.py` writes a configuration that `scripts/train.py` runs."""

import json
import os
import runpy
from pathlib import Path

import pandas as pd
import pytest
import yaml
from studies import SMALL, changed

from lib.core.errors import ConfigError
from lib.core.record import CONFIG, MODEL, RUN
from lib.study.configuration import load_study, read_layers
from lib.study.run import RunSettings, Start
from lib.training.checkpoints import Progress, seal, write_state
from lib.training.folders import home_of, parents_of, working_folder
from lib.workflow.commands.importing import import_runs
from lib.workflow.planning.plan import Plan


@pytest.fixture
def program(repository, tmp_path, monkeypatch):
    """Run the program on a study, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    main = runpy.run_path(str(repository / "scripts/tools/new_experiment.py"))["main"]

    def run(*arguments, study=repository / "config" / "demo.yaml"):
        main([*arguments, "--experiments", str(tmp_path), "--configfile", str(study)])

    return run


@pytest.fixture
def new_experiment(program, tmp_path):
    """Run the program and return the settings that it wrote, as `scripts/train.py` reads them."""

    def run(stage, name, *arguments, **options):
        program(stage, name, *arguments, **options)
        return RunSettings.model_validate(yaml.safe_load((tmp_path / stage / name / CONFIG).read_text()))

    return run


def checkpoint(tmp_path, name, step, *, attempt="0001-node-0123", whole=True):
    """Write a working checkpoint of the experiment `name` as it is now, and the folders of its inputs.

    Without its manifest it is not whole.
    """
    out = tmp_path / "pretrain" / name
    run = RunSettings.model_validate(yaml.safe_load((out / CONFIG).read_text()))
    for place in (*run.data.values(), run.tokenizer):
        Path(place).mkdir(parents=True, exist_ok=True)
    folder = working_folder(out) / home_of(run, None, parents_of(run)) / attempt / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("something")
    write_state(folder, Progress(step=step), {})
    if whole:
        seal(folder)
    return folder


def test_a_run_from_scratch(new_experiment):
    run = new_experiment("pretrain", "first", "--model", "lsh-h4-c64")
    assert (run.model, run.stage, run.dataset, run.seed, run.start) == ("first", "pretrain", "wikipedia", 420, None)
    assert run.backbone.mechanism.num_hashes == 4
    assert run.backbone.hidden_size == 64
    assert (run.recipe.epochs, run.recipe.keep, run.precision) == (2, ["last"], "fp32")
    assert run.execution.device == "cpu"
    assert run.tokenizer == "results/demo/tokenizers/wordpiece"
    assert run.data == {
        split: f"results/demo/data/wikipedia/tokens/wordpiece/{split}" for split in ("train", "validation")
    }


def test_without_a_model_it_is_the_first_that_trains(new_experiment):
    assert new_experiment("finetune", "first", "--dataset", "imdb").backbone.mechanism.kind == "sdpa"


def test_a_run_starts_where_its_study_does(new_experiment, tmp_path):
    """From an earlier stage, or from weights of others: published ones, a folder's, or word vectors."""
    run = new_experiment("finetune", "late", "--dataset", "imdb", "--model", "lsh-h4-c64")
    folder = "results/demo/runs/tapt/lsh-h4-c64/imdb/seed-420"
    assert run.start == Start(run=folder, checkpoint=f"{folder}/model")
    study = tmp_path / "study.yaml"
    own = {"start": {"folder": "some/weights"}, "backbone": "encoder", "mechanism": "sdpa"}
    study.write_text(yaml.safe_dump(changed(SMALL, ("experiment/models/own", own)), sort_keys=False))
    run = new_experiment("pretrain", "own", "--model", "own", study=study)
    assert run.start == Start(run=None, checkpoint="some/weights")


def test_the_only_dataset_need_not_be_named_and_several_must(program, new_experiment, tmp_path):
    assert new_experiment("pretrain", "first").dataset == "wikipedia"
    with pytest.raises(
        ConfigError, match="finetune works on several datasets. Name one of: imdb, hyperpartisan, arxiv"
    ):
        program("finetune", "fine", "--model", "sdpa")
    assert not (tmp_path / "finetune").exists()


def test_a_name_is_given_once(program, new_experiment, tmp_path):
    new_experiment("pretrain", "first")
    before = (tmp_path / "pretrain" / "first" / CONFIG).read_text()
    for arguments in (["--model", "favor-m64"], ["--resume", "pretrain/first"]):
        with pytest.raises(ConfigError, match=r"first: there is an experiment of this name.*names are unique"):
            program("pretrain", "first", *arguments)
    assert (tmp_path / "pretrain" / "first" / CONFIG).read_text() == before


@pytest.mark.parametrize("source", [[], ["--resume", "pretrain/first"]], ids=["new", "resumed"])
@pytest.mark.parametrize(
    "name", ["../../escaped", "/tmp/escaped", "..", ".", "", ".hidden", "a/b", "a b", "a\nb", "a\0b", "é", "n" * 300]
)
def test_a_name_is_that_of_a_folder_in_its_stage(program, new_experiment, name, source, tmp_path):
    new_experiment("pretrain", "first")
    (tmp_path / "pretrain" / "first" / RUN).write_text("{}")
    (tmp_path / "pretrain" / "first" / MODEL).mkdir()
    before = {*tmp_path.parent.rglob("*")}
    with pytest.raises(ConfigError, match=r"^name '.*Choose another one"):
        program("pretrain", name, *source)
    with pytest.raises(ConfigError, match=r"^stage '.*Choose another one"):
        program(name, "second", *source)
    assert {*tmp_path.parent.rglob("*")} == before
    assert not os.path.lexists("/tmp/escaped")


@pytest.mark.parametrize("option", ["--start", "--resume"])
def test_an_imported_run_is_no_start_as_its_settings_are_not_known(program, option, tmp_path):
    """The importer itself makes it."""
    run = {"run": "theirs", "stage": "pretrain", "dataset": "wikipedia", "attention": "mha", "epochs": 1, "seed": 1}
    pd.DataFrame([run | {"peak_gpu_mem_mb": 1.0, "runtime_s": 1.0}]).to_parquet(tmp_path / "runs.parquet")
    rows = [{"run": "theirs", "elapsed_s": 1.0, "train/epoch": 1.0, "train/avg_epoch_loss": 1.0}]
    pd.DataFrame(rows, columns=[*rows[0], "eval/epoch", "test/epoch"]).to_parquet(tmp_path / "history.parquet")
    (source,) = import_runs(tmp_path / "runs.parquet", tmp_path / "history.parquet", tmp_path / "theirs")
    with pytest.raises(ConfigError, match=r"seed-1/config.yaml: not all settings of a run; an imported run"):
        program("pretrain", "second", option, str(source))
    assert not (tmp_path / "pretrain").exists()


@pytest.mark.parametrize("option", ["--start", "--resume"])
def test_a_finished_run_without_weights_is_no_start(program, new_experiment, option, tmp_path):
    """Such as TF-IDF, which trains nothing, and one whose model was archived."""
    new_experiment("pretrain", "first")
    (tmp_path / "pretrain" / "first" / RUN).write_text("{}")
    with pytest.raises(ConfigError, match=r"first/model: no such folder, so there are no weights to start from"):
        program("pretrain", "second", option, "pretrain/first")
    assert not (tmp_path / "pretrain" / "second").exists()


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("option", ["--start", "--resume"])
def test_a_baseline_is_no_start(program, option, finished, tmp_path, repository):
    plan = Plan(load_study(read_layers([repository / "config" / "demo.yaml"])))
    run = next(run for run in plan.runs if run.id.stage == "finetune" and run.id.model == "tfidf")
    source = tmp_path / "baseline"
    source.mkdir()
    settings = json.loads(run.settings) | {"tokenizer": None, "data": plan.data(run)}
    (source / CONFIG).write_text(yaml.safe_dump(settings))
    if finished:
        (source / RUN).write_text("{}")
    with pytest.raises(ConfigError, match="baseline.*(no weights to start from|trains nothing)"):
        program("finetune", "second", option, str(source), *(["--dataset", "imdb"] if option == "--start" else []))
    assert not (tmp_path / "finetune").exists()


@pytest.mark.parametrize("option", ["--start", "--resume"])
def test_a_run_with_a_name_that_is_too_long_is_not_there(program, option):
    with pytest.raises(ConfigError, match="no such file"):
        program("pretrain", "second", option, "n" * 300)


def test_a_start_whose_settings_are_wrong_is_refused_with_its_file(program, new_experiment, tmp_path):
    new_experiment("pretrain", "first")
    path = tmp_path / "pretrain" / "first" / CONFIG
    settings = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(settings | {"backbone": settings["backbone"] | {"hidden_size": "wide"}}))
    with pytest.raises(ConfigError, match=r"first/config.yaml: not all settings.*\n.*backbone.*hidden_size"):
        program("finetune", "second", "--start", "pretrain/first", "--dataset", "imdb")
    assert not (tmp_path / "finetune").exists()


def test_settings_that_no_program_would_take_are_not_written(program, new_experiment, tmp_path):
    """A checkpoint with adapters cannot be continued."""
    new_experiment("pretrain", "first")
    folder = tmp_path / "pretrain" / "first"
    settings = yaml.safe_load((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(yaml.safe_dump(settings | {"recipe": settings["recipe"] | {"lora": {"merge": True}}}))
    (folder / RUN).write_text("{}")
    (folder / MODEL / "state").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"second/config.yaml: not written.*\n.*load_only_model_state"):
        program("pretrain", "second", "--resume", "pretrain/first")
    assert not (tmp_path / "pretrain" / "second").exists()


def test_a_start_hands_over_backbone_tokeniser_seed_and_precision(new_experiment, tmp_path):
    new_experiment("pretrain", "first", "--model", "favor-m256")
    path = tmp_path / "pretrain" / "first" / CONFIG
    pretraining = yaml.safe_load(path.read_text())
    pretraining["backbone"]["hidden_size"] = 96
    pretraining |= {"seed": 7, "precision": "bf16"}
    path.write_text(yaml.safe_dump(pretraining))
    run = new_experiment("finetune", "fine", "--start", "pretrain/first", "--dataset", "arxiv")
    assert (run.model, run.stage, run.dataset) == ("fine", "finetune", "arxiv")
    assert run.backbone.model_dump(mode="json") == pretraining["backbone"]
    assert (run.backbone.hidden_size, run.seed, run.precision) == (96, 7, "bf16")
    assert run.tokenizer == pretraining["tokenizer"]
    assert (run.start.run, run.start.checkpoint) == (str(path.parent), str(path.parent / MODEL))
    assert run.start.load_only_model_state
    assert (len(run.labels), run.task.kind, run.recipe.epochs) == (11, "sequence_classification", 3)


def test_a_start_with_a_foreign_tokeniser_is_refused(new_experiment, tmp_path):
    """Its weights would read the study's tokens as other words."""
    new_experiment("pretrain", "first", "--model", "favor-m256")
    path = tmp_path / "pretrain" / "first" / CONFIG
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"tokenizer": "elsewhere"}))
    with pytest.raises(ConfigError, match="elsewhere is none of the study's.*--configfile"):
        new_experiment("finetune", "fine", "--start", "pretrain/first", "--dataset", "arxiv")


def test_a_start_may_be_the_folder_of_any_run(new_experiment, tmp_path):
    new_experiment("pretrain", "first", "--model", "lsh-h2-c64")
    folder = tmp_path / "pretrain" / "first"
    run = new_experiment("finetune", "fine", "--start", str(folder), "--dataset", "imdb")
    assert run.start.checkpoint == str(folder / MODEL)
    assert run.backbone.mechanism.kind == "lsh"


def test_resuming_a_finished_run_takes_its_weights(new_experiment, tmp_path):
    first = new_experiment("pretrain", "first", "--model", "lsh-h2-c64")
    folder = tmp_path / "pretrain" / "first"
    (folder / RUN).write_text("{}")
    (folder / MODEL).mkdir()
    checkpoint(tmp_path, "first", 5)  # of an earlier attempt
    run = new_experiment("pretrain", "second", "--resume", "pretrain/first")
    assert run.model == "second"
    assert run.start.load_only_model_state
    assert (run.start.run, run.start.checkpoint) == (str(folder), str(folder / MODEL))
    assert run.model_copy(update={"model": "first", "start": None}) == first


def test_resuming_a_finished_run_that_kept_its_state_takes_it_whole(new_experiment, tmp_path):
    new_experiment("pretrain", "first")
    folder = tmp_path / "pretrain" / "first"
    (folder / RUN).write_text("{}")
    (folder / MODEL / "state").mkdir(parents=True)
    run = new_experiment("pretrain", "second", "--resume", str(folder))
    assert not run.start.load_only_model_state
    assert run.start.checkpoint == str(folder / MODEL / "state")


def test_resuming_an_interrupted_run_takes_its_newest_checkpoint(new_experiment, tmp_path):
    new_experiment("pretrain", "first")
    newest = [checkpoint(tmp_path, "first", step) for step in (2, 9, 10)][-1]
    checkpoint(tmp_path, "first", 8, attempt="0002-node-0123")
    run = new_experiment("pretrain", "second", "--resume", "pretrain/first")
    assert not run.start.load_only_model_state
    assert run.start.checkpoint == str(newest)
    assert run.start.run == str(tmp_path / "pretrain" / "first")


def test_a_checkpoint_that_is_not_whole_is_passed_over(program, new_experiment, tmp_path):
    new_experiment("pretrain", "first")
    checkpoint(tmp_path, "first", 10, whole=False)
    with pytest.raises(ConfigError, match="neither a finished run nor a whole checkpoint"):
        program("pretrain", "second", "--resume", "pretrain/first")
    whole = checkpoint(tmp_path, "first", 5)
    run = new_experiment("pretrain", "second", "--resume", "pretrain/first")
    assert run.start.checkpoint == str(whole)


def test_a_checkpoint_of_other_settings_or_inputs_is_not_taken(program, new_experiment, tmp_path):
    new_experiment("pretrain", "first")
    path = tmp_path / "pretrain" / "first" / CONFIG
    settings = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(settings | {"recipe": settings["recipe"] | {"learning_rate": 0.25}}))
    checkpoint(tmp_path, "first", 50)
    path.write_text(yaml.safe_dump(settings))
    with pytest.raises(ConfigError, match=r"checkpoint-50: a checkpoint of other settings or inputs than .*first"):
        program("pretrain", "second", "--resume", "pretrain/first")
    own = checkpoint(tmp_path, "first", 5)
    assert new_experiment("pretrain", "second", "--resume", "pretrain/first").start.checkpoint == str(own)
    path.write_text(yaml.safe_dump(settings | {"execution": settings["execution"] | {"micro_batch_tokens": 777}}))
    assert new_experiment("pretrain", "third", "--resume", "pretrain/first").start.checkpoint == str(own)
    Path(settings["tokenizer"], "vocab.txt").write_text("another")
    with pytest.raises(ConfigError, match="of other settings or inputs"):
        program("pretrain", "fourth", "--resume", "pretrain/first")


def test_checkpoints_of_another_experiment_are_not_taken(program, new_experiment, tmp_path):
    new_experiment("pretrain", "first")
    new_experiment("pretrain", "other")
    checkpoint(tmp_path, "other", 5)
    with pytest.raises(ConfigError, match="first: neither a finished run nor a whole checkpoint"):
        program("pretrain", "second", "--resume", "pretrain/first")
    assert not (tmp_path / "pretrain" / "second").exists()


def test_a_run_is_resumed_at_its_own_stage(program, new_experiment, tmp_path):
    new_experiment("pretrain", "first")
    (tmp_path / "pretrain" / "first" / RUN).write_text("{}")
    with pytest.raises(ConfigError, match=r"first: a run of pretrain, not of finetune\..*--start"):
        program("finetune", "second", "--resume", "pretrain/first")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--model", "sdpa", "--resume", "pretrain/first"),
        ("--model", "sdpa", "--start", "pretrain/first"),
        ("--start", "pretrain/first", "--resume", "pretrain/first"),
        ("--dataset", "wikipedia", "--resume", "pretrain/first"),
    ],
    ids=" ".join,
)
def test_arguments_that_contradict_each_other_are_refused(program, new_experiment, arguments, capsys, tmp_path):
    new_experiment("pretrain", "first")
    (tmp_path / "pretrain" / "first" / RUN).write_text("{}")
    with pytest.raises(SystemExit) as end:
        program("pretrain", "second", *arguments)
    assert end.value.code == 2
    assert arguments[2] in capsys.readouterr().err
    assert not (tmp_path / "pretrain" / "second").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("adapt", "a"), "'adapt' is not a stage of the study; known: pretrain, tapt, finetune"),
        (("pretrain", "a", "--model", "bert"), "'bert' is not a model that pretrain trains; known: sdpa, lsh-h2-c64"),
        (("finetune", "a", "--model", "tfidf", "--dataset", "imdb"), "'tfidf' is not a model that finetune trains"),
        (("finetune", "a", "--dataset", "reuters"), "'reuters' is not a dataset of finetune; known: imdb"),
        (("finetune", "a", "--start", "pretrain/none", "--dataset", "imdb"), "none.config.yaml: no such file"),
        (("pretrain", "a", "--resume", "pretrain/none"), "none.config.yaml: no such file"),
    ],
)
def test_what_is_not_there_is_named(program, arguments, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        program(*arguments)
    assert not (tmp_path / arguments[0]).exists()


def test_a_stage_that_nothing_is_trained_at_is_named(program, tmp_path):
    values = changed(SMALL, *((f"experiment/models/{name}", None) for name in ("sdpa", "lsh-h2-c64", "favor-m64")))
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump(values, sort_keys=False))
    with pytest.raises(ConfigError, match="finetune trains no model"):
        program("finetune", "a", "--dataset", "imdb", study=study)


def test_a_model_that_shares_its_run_may_be_named_too(new_experiment, tmp_path):
    swap = {"backbone": "encoder", "mechanism": "sdpa", "changes": {"tapt": {"mechanism": "favor-m64"}}}
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump(changed(SMALL, ("experiment/models/swap", swap)), sort_keys=False))
    assert new_experiment("pretrain", "a", "--model", "swap", study=study).backbone.mechanism.kind == "sdpa"
    run = new_experiment("tapt", "b", "--model", "swap", "--dataset", "imdb", study=study)
    assert run.backbone.mechanism.kind == "favor"


def test_a_run_that_imitates_is_told_of_its_teacher(tmp_path, program):
    model = {"backbone": "encoder", "mechanism": "sdpa", "changes": {"copy": {"mechanism": "favor-m64"}}}
    stage = SMALL["experiment"]["stages"]["pretrain"] | {
        "start": "pretrain", "task": {"kind": "imitation", "teacher": "sdpa"}, "models": ["swapped"],
    }  # fmt: skip
    path = tmp_path / "study.yaml"
    values = changed(SMALL, ("experiment/stages/copy", stage), ("experiment/models/swapped", model))
    path.write_text(json.dumps(values))
    program("copy", "first", study=path)
    run = RunSettings.model_validate(yaml.safe_load((tmp_path / "copy" / "first" / CONFIG).read_text()))
    assert run.task.teacher_weights == "results/runs/pretrain/sdpa/wikipedia/seed-1/model"
    assert run.task.teacher_backbone["mechanism"]["kind"] == "sdpa"
