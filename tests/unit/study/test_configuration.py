"""Configuration files: what they extend, what lies over what, and the file that a problem stands in."""

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


def test_a_chain_lies_over_its_last_file(write):
    write("a.yaml", {"x": {"a": 1, "b": 1, "c": 1}, "list": [1, 2]})
    write("b.yaml", {"extends": "a.yaml", "x": {"b": 2, "c": 2}})
    path = write("c.yaml", {"extends": "b.yaml", "x": {"c": 3}, "list": [3]})
    layers = read_layers([path])
    assert [name.rsplit("/", 1)[-1] for name, _ in layers] == ["a.yaml", "b.yaml", "c.yaml"]
    assert merged(layers) == {"x": {"a": 1, "b": 2, "c": 3}, "list": [3]}


def test_a_path_is_relative_to_the_file_that_it_stands_in(write, tmp_path, monkeypatch):
    write("config/base.yaml", {"x": 1, "y": 1})
    path = write("mine/deep/own.yaml", {"extends": "../../config/base.yaml", "y": 2})
    monkeypatch.chdir(tmp_path.parent)
    assert merged(read_layers([path])) == {"x": 1, "y": 2}


def test_a_study_anywhere_extends_a_shipped_file_by_its_name_also_one_of_its_own_name(write):
    for name in ("elsewhere/mine.yaml", "project/config/config.yaml"):
        layers = read_layers([write(name, {"extends": "config.yaml", "report": {"published": None}})])
        assert [Path(file).name for file, _ in layers] == ["config.yaml", Path(name).name]
        assert "lsh-h2-c64" in layers[0][1]["experiment"]["mechanisms"]


def test_a_file_of_the_same_folder_is_taken_before_a_shipped_one(write):
    write("config.yaml", {"x": 1})
    assert merged(read_layers([write("mine.yaml", {"extends": "config.yaml", "y": 2})])) == {"x": 1, "y": 2}


def test_several_files_lie_over_one_another_each_with_its_chain(write):
    write("base.yaml", {"x": 0, "y": 0, "z": 0})
    first = write("first.yaml", {"extends": "base.yaml", "x": 1, "y": 1})
    second = write("second.yaml", {"y": 2})
    assert merged(read_layers([first, second])) == {"x": 1, "y": 2, "z": 0}


@pytest.mark.parametrize("circle", [["a.yaml"], ["a.yaml", "b.yaml"], ["a.yaml", "b.yaml", "c.yaml"]])
def test_a_circle_is_an_error_and_no_endless_loop(write, circle):
    for name, following in zip(circle, [*circle[1:], circle[0]], strict=True):
        write(name, {"extends": following})
    path = write("start.yaml", {"extends": circle[0]})
    with pytest.raises(ConfigError, match=r"start\.yaml: extends itself.*a\.yaml"):
        read_layers([path])


def test_a_circle_spelled_in_two_ways_is_one(write):
    write("config/a.yaml", {"extends": "../config/a.yaml"})
    with pytest.raises(ConfigError, match="extends itself"):
        read_layers([write("start.yaml", {"extends": "config/a.yaml"})])


@pytest.mark.parametrize(
    ("content", "message"), [(None, r"none\.yaml: cannot be read"), ("- a list", "holds list, expected a mapping")]
)
def test_what_is_extended_must_be_settings(write, tmp_path, content, message):
    if content:
        (tmp_path / "none.yaml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_layers([write("start.yaml", {"extends": "none.yaml"})])


def test_what_extends_says_must_be_a_path(write):
    with pytest.raises(ConfigError, match=r"start\.yaml: extends: .*\['a\.yaml'\]"):
        read_layers([write("start.yaml", {"extends": ["a.yaml"]})])


def test_a_file_without_extends_inherits_nothing(write):
    path = write("own.yaml", changed(SMALL, ("experiment/models", {"sdpa": SMALL["experiment"]["models"]["sdpa"]})))
    study = load_study(read_layers([path]))
    assert list(study.experiment.models) == ["sdpa"]
    assert list(study.experiment.datasets) == ["imdb", "arxiv"]
    assert study.report.tables == study.report.figures == {}
    with pytest.raises(ConfigError, match="experiment: missing"):
        load_study(read_layers([write("nothing.yaml", {"execution": {}})]))


def problems_of(layers):
    with pytest.raises(ConfigError) as error:
        load_study(layers)
    head, *problems = str(error.value).split("\n- ")
    assert head == "the configuration has problems:"
    return problems


def over(*values):
    """Return the small study with further layers over it, named by their order."""
    return [("small.yaml", SMALL), *((f"layer{index}.yaml", each) for index, each in enumerate(values))]


def test_a_problem_names_the_file_that_its_key_stands_in():
    typo = {"experiment": {"backbones": {"encoder": {"hiden_size": 64}}}}
    innocent = {"experiment": {"backbones": {"encoder": {"hidden_size": 32}}}}
    (problem,) = problems_of(over(typo, innocent))
    assert problem.startswith("layer0.yaml: experiment.backbones.encoder.hiden_size: unknown key.")


def test_the_last_file_that_says_it_is_named():
    first = {"experiment": {"seeds": ["one"]}}
    second = {"experiment": {"seeds": "two"}}
    (problem,) = problems_of(over(first, second))
    assert problem.startswith("layer1.yaml: experiment.seeds: ")


def test_a_key_that_entries_share_is_placed_where_it_is_written():
    (problem,) = problems_of(over({"experiment": {"stages": {"tapt": {"recipe": {"lerning_rate": 1}}}}}))
    assert problem.startswith("layer0.yaml: experiment.stages.tapt.recipe.lerning_rate: unknown key.")
    own = {"experiment": {"stages": {"tapt": {"data": {"arxiv": {"recipe": {"lerning_rate": 1}}}}}}}
    (problem,) = problems_of(over(own))
    assert problem.startswith("layer0.yaml: experiment.stages.tapt.data.arxiv.recipe.lerning_rate: unknown key.")


def test_a_key_that_one_entry_lacks_is_placed_at_that_entry():
    stage = {
        "task": {"kind": "masked_lm"},
        "recipe": {"learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 8},
        "data": {"imdb": {"recipe": {"epochs": 1}}, "arxiv": {}},
    }
    layer = {"experiment": {"stages": {"extra": stage}, "models": {"tfidf": {"skip": ["pretrain", "tapt", "extra"]}}}}
    (problem,) = problems_of(over(layer))
    assert problem.startswith("layer0.yaml: experiment.stages.extra.data.arxiv.recipe.epochs: missing.")


def test_what_does_not_fit_together_is_placed_at_the_entry_that_it_is_about():
    wrong = {"experiment": {"models": {"swap": {"backbone": "enkoder", "mechanism": "sdpa"}}}}
    (problem,) = problems_of(over(wrong, {"experiment": {"seeds": [3]}}))
    assert problem.startswith(
        "layer0.yaml: experiment.models.swap.backbone: there is no 'enkoder'. Did you mean 'encoder'?"
    )


def test_null_removes_a_mechanism_with_its_models():
    study = load_study(over({"experiment": {"mechanisms": {"favor-m64": None}}}))
    assert list(study.experiment.mechanisms) == ["sdpa", "lsh-h2-c64"]
    assert list(study.experiment.models) == ["tfidf", "sdpa", "lsh-h2-c64"]


def test_null_removes_a_dataset_with_its_entries_in_stages():
    experiment = load_study(over({"experiment": {"datasets": {"arxiv": None}}})).experiment
    assert list(experiment.datasets) == ["imdb"]
    assert {name: list(stage.data) for name, stage in experiment.stages.items()} == {
        "pretrain": ["wikipedia"],
        "tapt": ["imdb"],
        "finetune": ["imdb"],
    }


@pytest.mark.parametrize(
    ("section", "entry"),
    [
        ("stages/finetune/data/arxiv", {"recipe": {"epochs": 2}}),
        ("stages/finetune/variants/recipe.batch_size", [8, 16]),
        ("stages/search/tuning/space/recipe.batch_size", {"values": [8, 16]}),
        ("models/sdpa/changes/finetune", {"recipe": {"epochs": 2}}),
        ("models/sdpa/changes/finetune/data/arxiv", {"mechanism": "favor-m64"}),
        ("datasets/arxiv/split/documents/train", 40),
        ("datasets/arxiv/local/files/test", ["test.csv"]),
        ("datasets/arxiv/local/ground_truth/test", ["labels.csv"]),
    ],
)
def test_null_removes_an_entry_of_a_mapping_or_all(section, entry):
    above, _, name = section.rpartition("/")
    search = {"trials": 4, "space": {"recipe.learning_rate": {"values": [1e-3, 1e-4]}}}
    stage = dict(SMALL["experiment"]["stages"]["finetune"], models=["sdpa"], tuning=search, data={"imdb": {}})
    own = {"local": {"files": {"train": ["train.csv"], "test": ["test.csv"]}}}
    base = over({"experiment": {"stages": {"search": stage}, "datasets": {"arxiv": own}}})

    def at(place, value):
        return "own", {
            "experiment": functools.reduce(lambda inner, key: {key: inner}, reversed(place.split("/")), value)
        }

    def found(*layers):
        values = load_study([*base, *layers]).experiment.model_dump()
        return functools.reduce(lambda inner, key: inner.get(key, {}), above.split("/"), values)

    assert name in found(at(section, entry))
    assert name not in found(at(section, entry), at(section, None))
    if above.endswith(("/variants", "/changes", "/documents", "/ground_truth")):  # there may be none
        assert found(at(section, entry), at(above, None)) == {}


def test_an_entry_whose_type_includes_null_keeps_it():
    of_labels = {"experiment": {"datasets": {"imdb": {"values": {"": None}}}}}
    assert load_study(over(of_labels)).experiment.datasets["imdb"].values == {"": None}


@pytest.mark.parametrize("place", ["tables", "figures", "analyses"])
def test_null_removes_all_results_of_a_kind(place):
    shown = {"report": {"tables": {"f1": {"stage": "finetune", "columns": ["f1"]}}}}
    study = load_study([*over(shown), ("own", {"report": {place: None}})])
    assert getattr(study.report, place) == {}


def test_null_removes_a_report_and_a_later_file_may_have_another():
    shown = {
        "report": {"tables": {"f1": {"stage": "finetune", "columns": ["f1"]}}, "reference": "sdpa", "title": "One"}
    }
    layers = [*over(shown), ("own", {"report": None})]
    assert load_study(layers).report == ReportSettings()
    assert load_study([*layers, ("later", {"report": {"title": "Two"}})]).report == ReportSettings(title="Two")


def test_null_removes_a_model_a_table_and_a_figure():
    report = {
        "tables": {
            "f1": {"stage": "finetune", "columns": ["f1"]},
            "baseline": {"kind": "classes", "stage": "finetune", "models": ["tfidf"]},
        },
        "figures": {"f1_time": {"stage": "finetune", "time": ["finetune"]}},
    }
    gone = {
        "experiment": {"models": {"tfidf": None}},
        "report": {"tables": {"baseline": None}, "figures": {"f1_time": None}},
    }
    study = load_study(over({"report": report}, gone))
    assert list(study.experiment.models) == ["sdpa", "lsh-h2-c64", "favor-m64"]
    assert list(study.report.tables) == ["f1"]
    assert study.report.figures == {}


def test_a_stage_that_loses_all_its_data_is_named():
    gone = {"corpora": {"wikipedia": None}, "tokenizers": {"wordpiece": {"corpus": "imdb"}}}
    (problem,) = problems_of(over({"experiment": gone}))
    assert "experiment.stages.pretrain.data: " in problem
    assert "at least 1 item" in problem
