"""Experiments by hand: `new_experiment.py` writes a configuration that the stage's script runs."""

import runpy

import pytest
import yaml

from lib.core.errors import ConfigError
from lib.core.record import CONFIG, MODEL, RUN
from lib.core.settings.finetune_run import FinetuneRun
from lib.core.settings.run import MlmRun


@pytest.fixture
def new_experiment(repository, tmp_path, monkeypatch):
    """Run the program and return the configuration that it wrote."""
    monkeypatch.chdir(repository)
    main = runpy.run_path(str(repository / "scripts" / "new_experiment.py"))["main"]

    def run(kind, *arguments):
        main([kind, *arguments, "--experiments", str(tmp_path), "--configfile", "config/demo.yaml"])
        name = arguments[arguments.index("-p" if kind == "pretraining" else "-f") + 1]
        return yaml.safe_load((tmp_path / kind / name / CONFIG).read_text())

    return run


def test_a_pretraining_from_scratch(new_experiment):
    config = new_experiment("pretraining", "-p", "first", "-m", "lsh-h4-c64")
    run = MlmRun.model_validate(config)
    assert (run.model, run.stage, run.start) == ("first", "pretrain", None)
    assert run.mechanism["num_hashes"] == 4
    assert run.encoder.hidden_size == 64
    assert run.execution.device == "cpu"


def test_a_name_is_given_once(new_experiment, tmp_path):
    new_experiment("pretraining", "-p", "first")
    before = (tmp_path / "pretraining" / "first" / CONFIG).read_text()
    with pytest.raises(ConfigError, match=r"first: there is an experiment of this name.*names are unique"):
        new_experiment("pretraining", "-p", "first", "-m", "favor-m64")
    assert (tmp_path / "pretraining" / "first" / CONFIG).read_text() == before


def test_a_finetuning_inherits_architecture_and_tokeniser(new_experiment, tmp_path):
    pretraining = new_experiment("pretraining", "-p", "first", "-m", "favor-m256")
    path = tmp_path / "pretraining" / "first" / CONFIG
    pretraining["encoder"]["hidden_size"] = 96
    pretraining["tokenizer"] = "elsewhere"
    path.write_text(yaml.safe_dump(pretraining))
    run = FinetuneRun.model_validate(new_experiment("finetuning", "-f", "fine", "-p", "first", "-d", "arxiv"))
    assert (run.encoder.hidden_size, run.tokenizer) == (96, "elsewhere")
    assert run.mechanism == pretraining["mechanism"]
    assert run.start.checkpoint == str(path.parent / MODEL)
    assert len(run.labels) == 11


def test_resuming_a_finished_run_takes_its_weights(new_experiment, tmp_path):
    new_experiment("pretraining", "-p", "first", "-m", "lsh-h2-c64")
    (tmp_path / "pretraining" / "first" / RUN).write_text("{}")
    run = MlmRun.model_validate(new_experiment("pretraining", "-p", "second", "-rp", "first"))
    assert run.model == "second"
    assert run.mechanism["kind"] == "lsh"
    assert run.start.load_only_model_state
    assert run.start.checkpoint == str(tmp_path / "pretraining" / "first" / MODEL)


def test_resuming_an_interrupted_run_takes_its_whole_state(new_experiment, tmp_path):
    new_experiment("pretraining", "-p", "first")
    for step in (9, 10):
        (tmp_path / "pretraining" / ".first.work" / "pretrain-first" / f"checkpoint-{step}").mkdir(parents=True)
    run = MlmRun.model_validate(new_experiment("pretraining", "-p", "second", "-rp", "first"))
    assert not run.start.load_only_model_state
    assert run.start.checkpoint.endswith("checkpoint-10")


def test_there_must_be_something_to_resume(new_experiment):
    new_experiment("pretraining", "-p", "first")
    with pytest.raises(ConfigError, match="neither a finished run nor a working checkpoint"):
        new_experiment("pretraining", "-p", "second", "-rp", "first")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pretraining", "-p", "a", "-m", "bert"), "'bert' is not a model of the configuration; known: sdpa"),
        (("finetuning", "-f", "a", "-p", "none"), "none.*cannot be read"),
    ],
)
def test_what_is_not_there_is_named(new_experiment, arguments, message):
    with pytest.raises(ConfigError, match=message):
        new_experiment(*arguments)
