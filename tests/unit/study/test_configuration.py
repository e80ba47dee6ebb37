"""Configuration files: what they extend, and what lies over what."""

import functools
from pathlib import Path

import pytest
import yaml
from small_studies import SMALL, changed

from lib.core.errors import ConfigError
from lib.study.configuration import load_study, merged, read_layers
from lib.study.report import ReportSettings


@pytest.fixture
def write(tmp_path):
    """Write a configuration file below a folder and return its path."""

    def file(name, values):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(values, sort_keys=False))
        return path

    return file


def test_files_lie_over_those_that_they_extend(write):
    write("a.yaml", {"x": {"a": 1, "b": 1, "c": 1}, "list": [1, 2], "y": 0})
    write("b.yaml", {"extends": "a.yaml", "x": {"b": 2, "c": 2}})
    first = write("c.yaml", {"extends": "b.yaml", "x": {"c": 3}, "list": [3], "y": 1})
    layers = read_layers([first, write("d.yaml", {"y": 2})])
    assert [name.rsplit("/", 1)[-1] for name, _ in layers] == ["a.yaml", "b.yaml", "c.yaml", "d.yaml"]
    assert merged(layers) == {"x": {"a": 1, "b": 2, "c": 3}, "list": [3], "y": 2}


def test_path_of_extends_is_relative_or_a_shipped_name(write, tmp_path, monkeypatch):
    write("config/base.yaml", {"x": 1, "y": 1})
    path = write("mine/deep/own.yaml", {"extends": "../../config/base.yaml", "y": 2})
    monkeypatch.chdir(tmp_path.parent)
    assert merged(read_layers([path])) == {"x": 1, "y": 2}
    for name in ("elsewhere/mine.yaml", "project/config/config.yaml"):  # also one of its own name
        layers = read_layers([write(name, {"extends": "config.yaml", "report": {"published": None}})])
        assert [Path(file).name for file, _ in layers] == ["config.yaml", Path(name).name]
        assert "lsh-h2-c64" in layers[0][1]["experiment"]["mechanisms"]
    write("config.yaml", {"x": 1})
    assert merged(read_layers([write("mine.yaml", {"extends": "config.yaml", "y": 2})])) == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.yaml": {"extends": "a.yaml"}}, "extends itself"),
        ({"a.yaml": {"extends": "b.yaml"}, "b.yaml": {"extends": "a.yaml"}}, "extends itself"),
        ({"a.yaml": {"extends": "config/b.yaml"}, "config/b.yaml": {"extends": "../config/b.yaml"}}, "extends itself"),
        ({}, "a.yaml: cannot be read"),
        ({"a.yaml": ["a list"]}, "a.yaml: holds list"),
        ({"a.yaml": {"extends": ["b.yaml"]}}, r"a.yaml: extends: \['b.yaml'\]"),
    ],
)
def test_extends_that_leads_nowhere_is_refused(write, files, message):
    for name, values in files.items():
        write(name, values)
    with pytest.raises(ConfigError, match=message):
        read_layers([write("start.yaml", {"extends": "a.yaml"})])


def test_file_without_extends_inherits_nothing(write):
    path = write("own.yaml", changed(SMALL, ("experiment/models", {"sdpa": SMALL["experiment"]["models"]["sdpa"]})))
    study = load_study(read_layers([path]))
    assert list(study.experiment.models) == ["sdpa"]
    assert study.report == ReportSettings()


def over(*values):
    """Return the small study with further layers over it, named by their order."""
    return [("small.yaml", SMALL), *((f"layer{index}.yaml", each) for index, each in enumerate(values))]


def nested(place, value):
    """Return a value below a place of an experiment."""
    return {"experiment": functools.reduce(lambda inner, key: {key: inner}, reversed(place.split("/")), value)}


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("stages/finetune/data/arxiv", {"recipe": {"epochs": 2}}),
        ("stages/finetune/variants/recipe.batch_size", [8, 16]),
        ("stages/search/tuning/space/recipe.batch_size", {"values": [8, 16]}),
        ("models/sdpa/changes/finetune", {"recipe": {"epochs": 2}}),
        ("models/sdpa/changes/finetune/data/arxiv", {"mechanism": "favor-m64"}),
        ("datasets/arxiv/split/documents/train", 40),
        ("datasets/arxiv/local/ground_truth/test", ["labels.csv"]),
    ],
)
def test_null_removes_an_entry_of_a_mapping_or_all(section, entry):
    above, _, name = section.rpartition("/")
    search = {"trials": 4, "space": {"recipe.learning_rate": {"values": [1e-3, 1e-4]}}}
    stage = dict(SMALL["experiment"]["stages"]["finetune"], models=["sdpa"], tuning=search, data={"imdb": {}})
    own = {"local": {"files": {"train": ["train.csv"], "test": ["test.csv"]}}}
    base = over({"experiment": {"stages": {"search": stage}, "datasets": {"arxiv": own}}})

    def found(*layers):
        values = load_study([*base, *(("own", layer) for layer in layers)]).experiment.model_dump()
        return functools.reduce(lambda inner, key: inner.get(key, {}), above.split("/"), values)

    assert name in found(nested(section, entry))
    assert name not in found(nested(section, entry), nested(section, None))
    if above.endswith(("/variants", "/changes", "/documents", "/ground_truth")):  # there may be none
        assert found(nested(section, entry), nested(above, None)) == {}


def test_null_removes_what_depends_on_an_entry_too():
    experiment = load_study(over(nested("mechanisms/favor-m64", None))).experiment
    assert list(experiment.mechanisms) == ["sdpa", "lsh-h2-c64"]
    assert list(experiment.models) == ["tfidf", "sdpa", "lsh-h2-c64"]
    experiment = load_study(over(nested("datasets/arxiv", None))).experiment
    assert list(experiment.datasets) == ["imdb"]
    stages = {name: list(stage.data) for name, stage in experiment.stages.items()}
    assert stages == {"pretrain": ["wikipedia"], "tapt": ["imdb"], "finetune": ["imdb"]}
    of_labels = load_study(over(nested("datasets/imdb/values", {"": None}))).experiment.datasets["imdb"]
    assert of_labels.values == {"": None}, "null is what this entry says"
    gone = {"corpora": {"wikipedia": None}, "tokenizers": {"wordpiece": {"corpus": "imdb"}}}
    with pytest.raises(ConfigError, match=r"experiment.stages.pretrain.data: .*at least 1"):
        load_study(over({"experiment": gone}))


def test_null_removes_results_and_a_later_file_has_others():
    shown = {"tables": {"f1": {"stage": "finetune", "columns": ["f1"]}}, "reference": "sdpa", "title": "One"}
    layers = over({"report": shown}, {"report": {"tables": {"f1": None}}})
    assert load_study(layers).report.tables == {}
    for place in ("tables", "figures", "analyses"):
        assert getattr(load_study([*layers, ("own", {"report": {place: None}})]).report, place) == {}
    layers.append(("own", {"report": None}))
    assert load_study(layers).report == ReportSettings()
    assert load_study([*layers, ("later", {"report": {"title": "Two"}})]).report == ReportSettings(title="Two")
