"""The house is general: a study is a configuration file alone; a task, a backbone, a table are one new file each."""

import json
import random
import re

import pandas as pd
import pytest
from safetensors.torch import load_file
from small_studies import executed_in

from lib.core.record import read_record

pytestmark = pytest.mark.study

COLOURS = ["red", "green", "blue"]
WORDS = [f"{first}{vowel}{last}" for first in "bdgklm" for vowel in "aeiou" for last in "nrst"]


def document(generator, label):
    """Return words among which those of a class are more frequent."""
    own = WORDS[40 * label : 40 * label + 40]
    return " ".join(generator.choices(own if generator.random() < 0.7 else WORDS, k=1)[0] for _ in range(20))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A corpus of letters and a dataset of notes with three classes, as a user's own files."""
    folder = tmp_path_factory.mktemp("texts")
    generator = random.Random(1)
    (folder / "letters.txt").write_text("".join(f"{document(generator, n % 3)}\n" for n in range(150)))
    labels = [number % 3 for number in range(240)]
    notes = {"note": [document(generator, label) for label in labels], "colour": [COLOURS[label] for label in labels]}
    pd.DataFrame(notes).to_csv(folder / "notes.csv", index=False)
    return folder


def study(texts):
    """Return a study that shares nothing with the grid."""
    return {
        "experiment": {
            "seeds": [5],
            "precision": "fp32",
            "mechanisms": {"sdpa": {"kind": "sdpa"}, "favor-m16": {"kind": "favor", "nb_features": 16}},
            "backbones": {
                "small": {
                    "kind": "encoder",
                    "hidden_size": 32,
                    "num_hidden_layers": 1,
                    "num_attention_heads": 2,
                    "intermediate_size": 32,
                    "initializer_range": 0.1,
                },
                "reader": {"kind": "recurrent", "cell": "gru", "hidden_size": 32, "num_hidden_layers": 1},
                "words": {"kind": "tfidf", "min_df": 1},
            },
            "tokenizers": {
                "coarse": {"source": "trained", "vocab_size": 120, "corpus": "letters"},
                "fine": {"source": "trained", "vocab_size": 400, "corpus": "notes"},
            },
            "corpora": {
                "letters": {
                    "source": "local",
                    "local": {"files": {"train": [str(texts / "letters.txt")]}},
                    "short": {"articles": 100, "max_tokens": 24},
                    "long": {"articles": 0, "max_tokens": 24},
                    "held_out": {"articles": 20, "max_tokens": 24},
                }
            },
            "datasets": {
                "notes": {
                    "source": "local",
                    "local": {"files": {"all": [str(texts / "notes.csv")]}},
                    "text": "note",
                    "label": "colour",
                    "labels": COLOURS,
                    "max_tokens": 32,
                }
            },
            "stages": {
                "read": {
                    "task": {"kind": "masked_lm"},
                    "recipe": {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 16},
                    "data": {"letters": {}},
                },
                "settle": {
                    "start": "read",
                    "task": {"kind": "masked_lm", "mask_probability": 0.2},
                    "recipe": {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 16},
                    "data": {"notes": {}},
                },
                "judge": {
                    "start": "settle",
                    "task": {"kind": "sequence_classification", "classifier_dropout": 0.0},
                    "recipe": {"epochs": 4, "learning_rate": 5e-3, "min_lr_ratio": 0.1, "batch_size": 16},
                    "data": {"notes": {}},
                },
                "again": {
                    "start": "judge",
                    "task": {"kind": "sequence_classification", "classifier_dropout": 0.0},
                    "data": {"notes": {}},
                },
            },
            "models": {
                "counting": {"backbone": "words", "skip": ["read", "settle", "again"]},
                "whole": {"backbone": "small", "mechanism": "sdpa", "tokenizer": "coarse"},
                "hasty": {
                    "backbone": "small",
                    "mechanism": "sdpa",
                    "tokenizer": "coarse",
                    "skip": ["settle"],
                    "changes": {"again": {"mechanism": "favor-m16"}},
                },
                "reading": {"backbone": "reader", "tokenizer": "coarse"},
                "swapped": {
                    "backbone": "small",
                    "mechanism": "sdpa",
                    "tokenizer": "coarse",
                    "changes": {"settle": {"mechanism": "favor-m16"}},
                    "skip": ["again"],
                },
                "finer": {"backbone": "small", "mechanism": "favor-m16", "tokenizer": "fine", "skip": ["again"]},
            },
        },
        "report": {
            "tables": {
                "lengths": {"kind": "token_lengths"},
                "read": {"stage": "read", "columns": ["minutes", "loss"]},
                "scores": {"stage": "judge", "columns": ["f1", "test_accuracy"]},
                "again": {"stage": "again", "columns": ["f1"]},
                "classes": {"kind": "classes", "stage": "judge", "models": ["counting"]},
            },
            "figures": {"cost": {"kind": "score_time", "stage": "judge", "time": ["settle", "judge"]}},
            "baseline": "counting",
        },
        "execution": executed_in("results/notes"),
    }


@pytest.fixture(scope="module")
def finished(run_study, texts):
    return run_study(study(texts))


def run(project, stage, model, dataset):
    return project.results / "runs" / stage / model / dataset / "seed-5"


def test_a_study_stands_alone(finished):
    """Nothing of the grid is planned, and nothing lies outside the study's own folder."""
    assert {path.name for path in (finished.folder / "results").iterdir()} == {"notes"}
    assert {path.name for path in (finished.results / "data").iterdir()} == {"letters", "notes"}
    assert finished.stale("notes.yaml") == {}


def test_models_that_are_the_same_so_far_share_a_run(finished):
    def made(stage):
        return {path.name for path in (finished.results / "runs" / stage).iterdir()}

    assert made("read") == {"whole", "reading", "finer"}
    assert made("settle") == {"whole", "reading", "swapped", "finer"}
    assert made("judge") == {"counting", "whole", "hasty", "reading", "swapped", "finer"}
    assert made("again") == {"whole", "hasty", "reading"}


def test_each_model_starts_where_it_says(finished):
    def start(stage, model, dataset="notes"):
        return read_record(run(finished, stage, model, dataset)).parents["start"].path

    assert start("settle", "whole").endswith("read/whole/letters/seed-5/model")
    assert start("settle", "swapped").endswith("read/whole/letters/seed-5/model")
    assert start("judge", "swapped").endswith("settle/swapped/notes/seed-5/model")
    assert start("judge", "hasty").endswith("read/whole/letters/seed-5/model")


def test_a_mechanism_changes_between_stages(finished):
    def mechanism(stage, model, dataset):
        return json.loads((run(finished, stage, model, dataset) / "model" / "config.json").read_text())["mechanism"]

    assert mechanism("read", "whole", "letters")["kind"] == "sdpa"
    assert mechanism("settle", "swapped", "notes")["kind"] == "favor"
    assert mechanism("judge", "swapped", "notes")["kind"] == "favor"


def test_models_read_by_their_own_tokenisers(finished):
    sizes = {
        model: load_file(run(finished, "judge", model, "notes") / "model" / "model.safetensors")[
            "encoder.embeddings.word_embeddings.weight"
        ].shape[0]
        for model in ("whole", "finer")
    }
    assert sizes["whole"] <= 120 < sizes["finer"] <= 400


def test_a_model_that_does_not_train_is_a_run_like_any_other(finished):
    folder = run(finished, "judge", "counting", "notes")
    assert {path.name for path in folder.iterdir()} == {"config.yaml", "predictions.parquet", "run.json"}
    record = read_record(folder)
    assert (record.epochs, record.steps, record.task) == (0, 0, "sequence_classification")
    assert record.metrics["test_f1_macro"] > 0.8
    others = pd.read_parquet(run(finished, "judge", "whole", "notes") / "predictions.parquet")
    own = pd.read_parquet(folder / "predictions.parquet")
    assert list(own.columns) == list(others.columns)
    assert sorted(own["id"]) == sorted(others["id"])


@pytest.mark.parametrize("model", ["whole", "reading"])
def test_a_trained_model_is_evaluated_as_it_is(finished, model):
    first, again = (run(finished, stage, model, "notes") for stage in ("judge", "again"))
    assert {path.name for path in again.iterdir()} == {"config.yaml", "predictions.parquet", "run.json"}
    predictions = (pd.read_parquet(folder / "predictions.parquet") for folder in (first, again))
    pd.testing.assert_frame_equal(*predictions, check_exact=True)
    record = read_record(again)
    assert record.metrics["test_f1_macro"] == read_record(first).metrics["test_f1_macro"]
    assert record.parents["start"].path.endswith(f"judge/{model}/notes/seed-5/model")
    assert (record.epochs, set(record.parents)) == (0, {"start", "tokenizer", "validation", "test"})


def test_a_mechanism_changes_where_nothing_is_trained(finished):
    first, again = (read_record(run(finished, stage, "hasty", "notes")).metrics for stage in ("judge", "again"))
    assert first["eval_loss"] != again["eval_loss"]


def test_the_tables_are_those_that_the_study_asks_for(finished):
    tables = finished.results / "tables"
    assert {path.stem for path in tables.glob("*.csv")} == {"lengths", "read", "scores", "again", "classes_notes"}
    scores = pd.read_csv(tables / "scores.csv")
    assert scores["model"].tolist() == ["counting", "whole", "hasty", "reading", "swapped", "finer"]
    assert list(scores.columns) == ["model", "notes_f1_macro_percent", "notes_test_accuracy"]
    assert scores.notna().all(axis=None)
    assert (scores["notes_f1_macro_percent"] > 100 / 3).all()
    assert pd.read_csv(tables / "classes_notes.csv")["label"].tolist() == [*COLOURS, "accuracy", "macro average"]
    lengths = pd.read_csv(tables / "lengths.csv")
    assert set(zip(lengths["corpus"], lengths["tokenizer"], strict=True)) == {
        ("letters", "coarse"), ("letters", "fine"), ("notes", "coarse"), ("notes", "fine")
    }  # fmt: skip
    assert (finished.results / "figures" / "cost.svg").stat().st_size > 5_000


TASK = '''
"""Which class the first and the last words agree on: a task of one file, with a head of its own."""

from typing import ClassVar, Literal

from lib.tasks.settings import TaskSettings
from lib.tasks import contract


class Settings(TaskSettings):
    """Classification from the first token alone."""

    labelled: ClassVar[bool] = True
    predicts: ClassVar[bool] = True
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    keeps: ClassVar[str] = "best"

    kind: Literal["first_token"]
    factor: float = 1.0


class Task(contract.Task):
    """Tell the class from the state of the first token."""

    best = "accuracy"

    def model_options(self):
        return {"num_labels": len(self.labels)}

    def model(self, config):
        import torch
        from transformers import AutoModel
        from transformers.modeling_outputs import SequenceClassifierOutput

        factor, base = self.parameters.factor, AutoModel.from_config(config)

        class FirstToken(type(base).__mro__[1]):
            def __init__(self):
                super().__init__(config)
                setattr(self, self.base_model_prefix, base)
                self.decide = torch.nn.Linear(config.hidden_size, config.num_labels)

            def forward(self, input_ids, attention_mask=None, labels=None, num_items_in_batch=None):
                states = self.base_model(input_ids, attention_mask).last_hidden_state
                logits = factor * self.decide(states[:, 0])
                count = len(labels) if num_items_in_batch is None else num_items_in_batch
                loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / count
                return SequenceClassifierOutput(loss=loss, logits=logits)

        return FirstToken()

    def collator(self, tokenizer):
        from lib.tokens.batches import ClassificationCollator

        return ClassificationCollator(tokenizer.pad_token_id)

    def metrics(self, prediction):
        return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}

    def predictions(self, tokens, output):
        import pandas as pd

        return pd.DataFrame(
            {"id": tokens["id"][:], "label": tokens["label"][:], "prediction": output.predictions.argmax(-1)}
        )
'''

BACKBONE = '''
"""Running means of word embeddings: a backbone of one file."""

from typing import Literal

from lib.backbones import contract
from lib.backbones.settings import BackboneSettings


class Settings(BackboneSettings):
    """Embeddings and their means."""

    kind: Literal["averaging"]
    hidden_size: int = 16


def classes():
    import torch
    from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import BaseModelOutput

    class AveragingConfig(PretrainedConfig):
        model_type = "averaging"

        def __init__(self, vocab_size=100, hidden_size=16, **options):
            super().__init__(**options)
            self.vocab_size, self.hidden_size = vocab_size, hidden_size

    class AveragingBase(PreTrainedModel):
        config_class = AveragingConfig
        base_model_prefix = "averaging"

    class AveragingModel(AveragingBase):
        def __init__(self, config):
            super().__init__(config)
            self.embeddings = torch.nn.Embedding(config.vocab_size, config.hidden_size)
            self.post_init()

        def forward(self, input_ids, attention_mask=None):
            mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            states = self.embeddings(input_ids) * mask[..., None]
            mean = states.sum(1, keepdim=True) / mask.sum(1)[:, None, None]
            return BaseModelOutput(last_hidden_state=mean.expand_as(states))

    AutoConfig.register("averaging", AveragingConfig)
    AutoModel.register(AveragingConfig, AveragingModel)
    return AveragingConfig


class Backbone(contract.TokenBackbone):
    """Means of word embeddings."""

    def config(self, tokenizer, options):
        return classes()(vocab_size=len(tokenizer), hidden_size=self.parameters.hidden_size, **options)

    def load_weights(self, model, folder, *, with_head=False):
        from safetensors.torch import load_file

        model.load_state_dict(load_file(f"{folder}/model.safetensors"), strict=False)
'''


PAGE = "docs/add_table.md"
"""Shows a table of one file."""

FIGURE = '''
"""The accuracy of every model: a kind of figure of one file."""

from typing import Literal

from matplotlib.figure import Figure

from lib.results.settings import FigureSettings


class BarsFigure(FigureSettings):
    """Bars."""

    kind: Literal["bars"]
    stage: str

    def draw(self, scope):
        scores = scope.grid(self.stage, ["test_accuracy"]).set_index("row")["test_accuracy"]
        figure = Figure()
        figure.subplots().bar(list(scope.models), scores.loc[scope.models])
        return figure
'''


def test_a_task_a_backbone_a_table_and_a_figure_are_one_new_file_each(repository, copy_of_repository, texts):
    project = copy_of_repository("extended")
    project.results = project.folder / "results" / "notes"
    (project.folder / "lib" / "tasks" / "first_token.py").write_text(TASK)
    (project.folder / "lib" / "backbones" / "averaging.py").write_text(BACKBONE)
    documented = re.findall(r"```python\n# (lib/results/\S+)\n(.*?)```", (repository / PAGE).read_text(), re.DOTALL)
    assert documented
    for path, text in documented:
        (project.folder / path).write_text(text)
    (project.folder / "lib" / "results" / "kinds" / "bars.py").write_text(FIGURE)
    values = study(texts)
    experiment = values["experiment"]
    experiment["backbones"]["averaging"] = {"kind": "averaging", "hidden_size": 24}
    experiment["models"] = {
        "means": {"backbone": "averaging", "tokenizer": "coarse"},
        "encoder": {"backbone": "small", "mechanism": "sdpa", "tokenizer": "coarse"},
    }
    del experiment["stages"]["judge"]["start"]
    experiment["stages"] = {"judge": experiment["stages"]["judge"]}
    experiment["stages"]["judge"]["task"] = {"kind": "first_token", "factor": 2.0}
    values["report"] = {
        "tables": {
            "scores": {"stage": "judge", "columns": ["test_accuracy"]},
            "ranks": {"kind": "ranks", "stage": "judge", "column": "test_accuracy"},
        },
        "figures": {"bars": {"kind": "bars", "stage": "judge"}},
    }
    project.configure(values, "extended.yaml")
    project.snakemake("--cores", 2, "--configfile", "extended.yaml")
    scores = pd.read_csv(project.results / "tables" / "scores.csv").set_index("model")["notes"]
    assert scores["means"] > 0.7
    ranks = pd.read_csv(project.results / "tables" / "ranks.csv").set_index("model")["notes"]
    assert ranks.to_dict() == scores.rank(ascending=False, method="min").to_dict()
    assert "means" in (project.results / "figures" / "bars.svg").read_text()
    record = read_record(run(project, "judge", "means", "notes"))
    assert record.task == "first_token"
    assert record.parameters["head"] == 24 * 3 + 3

    experiment["stages"]["judge"]["task"]["factor"] = 3.0
    project.configure(values, "extended.yaml")
    assert project.stale("extended.yaml")["train"] == 2
    experiment["models"]["encoder"]["backbone"] = "wrods"
    experiment["stages"]["judge"]["task"]["facter"] = 3.0
    values["report"]["tables"]["ranks"]["stages"] = ["judge"]
    project.configure(values, "extended.yaml")
    message = project.snakemake("-n", "--configfile", "extended.yaml", check=False).stdout
    assert "facter: unknown key" in message
    assert "report.tables.ranks.stages: unknown key" in message
    del experiment["stages"]["judge"]["task"]["facter"], values["report"]["tables"]["ranks"]["stages"]
    project.configure(values, "extended.yaml")
    message = project.snakemake("-n", "--configfile", "extended.yaml", check=False).stdout
    assert "models.encoder.backbone: there is no 'wrods'" in message
