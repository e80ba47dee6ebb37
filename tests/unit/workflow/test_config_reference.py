import json
import re

import jsonschema
import pytest
import yaml

from lib.analysis.settings import ANALYSES
from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.preparing.generators import options_class
from lib.preparing.settings.corpus import Corpus
from lib.preparing.settings.dataset import Dataset
from lib.preparing.settings.tokenizer import Tokenizer
from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import SHIPPED, load_study, read_layers
from lib.study.execution import Execution, Training
from lib.study.experiment import Experiment
from lib.study.recipe import Recipe
from lib.study.run import RunSettings, Start
from lib.study.stages import Model, Stage
from lib.tasks.settings import TASKS
from lib.workflow.commands.config_reference import config_readme, config_schema
from lib.workflow.planning.plan import Plan

AGAIN = "run: python scripts/tools/config_reference.py"


def fields(*sections):
    return {name for section in sections for name in section.model_fields}


def parameters(axis):
    return [axis.settings(kind) for kind in axis.kinds()]


def test_the_reference_is_up_to_date(repository):
    assert (repository / "config/README.md").read_text(encoding="utf-8") == config_readme(), AGAIN
    assert (repository / "config/schema.json").read_text(encoding="utf-8") == config_schema(), AGAIN


PLACES = {
    MECHANISMS: "experiment.mechanisms.<name>",
    BACKBONES: "experiment.backbones.<name>",
    TASKS: "experiment.stages.<name>.task",
    TABLES: "report.tables.<name>",
    FIGURES: "report.figures.<name>",
    ANALYSES: "report.analyses.<name>",
}


@pytest.mark.parametrize("axis", PLACES, ids=lambda axis: axis.noun)
def test_every_kind_has_a_table_with_all_its_keys(axis):
    """A table and a figure may share the name of their kind."""
    parts = config_readme().split("\n### ")
    for kind in axis.kinds():
        (table,) = (part for part in parts if part.splitlines()[0] == f"`{PLACES[axis]}` with `kind: {kind}`")
        for name in axis.settings(kind).model_fields:
            assert f"\n| `{name}` |" in table


def test_every_generator_with_options_has_a_table_of_them():
    text = config_readme()
    for name in ("brackets", "listops"):
        table = next(part for part in text.split("\n### ") if f"with `generator: {name}`" in part.splitlines()[0])
        for option in options_class(name).model_fields:
            assert f"\n| `{option}` |" in table
    assert "with `generator: imdb`" not in text


@pytest.mark.parametrize("place", ["experiment.corpora.<name>.url.files.<part>[]", "config.yaml", "start"])
def test_remote_files_and_the_settings_of_a_run_have_tables(place):
    assert f"\n### `{place}`\n" in config_readme()


def test_every_heading_that_a_row_names_is_there():
    text = config_readme()
    assert set(re.findall(r"Keys: `([^`]+)`", text)) <= set(re.findall(r"^### `([^`]+)`", text, re.MULTILINE))


# The reproduced study's settings


def rows_of_the_study():
    text = config_readme().partition("## Names in the reproduced study")[2].partition("\n## ")[0]
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| `")]
    return {row[0].strip("| `"): row[1] for row in rows}


def test_all_settings_of_the_study_are_there():
    rows = rows_of_the_study()
    assert len(rows) == 79
    assert not [name for name, here in rows.items() if not here.startswith(("`", "run: `", "none"))]


def test_every_key_that_stands_beside_a_setting_of_the_study_exists():
    sections = {
        "recipe": fields(Recipe),
        "task": fields(*parameters(TASKS)),
        "stages.<name>.task": fields(*parameters(TASKS)),
        "mechanisms.<name>": fields(*parameters(MECHANISMS)),
        "backbones.<name>": fields(*parameters(BACKBONES)),
        "tokenizers.<name>": fields(Tokenizer),
        "corpora.<name>": fields(Corpus),
        "datasets.<name>": fields(Dataset),
        "models.<name>": fields(Model),
        "stages.<name>": fields(Stage),
        "execution.training": fields(Training),
        "execution": fields(Execution),
        "start": fields(Start),
        "data": {"train", "validation", "test"},
        "": fields(Experiment, RunSettings),
    }
    for here in rows_of_the_study().values():
        studied, _, run = here.partition("run: ")
        before = ""
        for key in re.findall("`([^`]+)`", studied) + re.findall("`([^`]+)`", run):
            if key.startswith("."):  # `tokenizers.<name>.source`, `.path`
                key = before.rpartition(".")[0] + key
            before = key
            if key.endswith("<name>"):
                key = key.removesuffix(".<name>")
            key = key.replace(".{short,long,held_out}.max_tokens", ".short")
            section, _, name = key.rpartition(".")
            assert name in sections[section], key


# The schema


@pytest.fixture(scope="module")
def schema():
    return jsonschema.Draft202012Validator(json.loads(config_schema()))


def shipped():
    return sorted(SHIPPED.values())


def test_the_schema_accepts_every_shipped_study(schema, repository):
    for path in shipped():
        problems = [error.message for error in schema.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8")))]
        assert not problems, path


WRONG = {
    "an unknown key": {"experimnt": {}},
    "an unknown key of a kind": {"experiment": {"mechanisms": {"sdpa": {"kind": "sdpa", "chunk_size": 64}}}},
    "an unknown kind": {"experiment": {"backbones": {"encoder": {"kind": "unheard_of"}}}},
    "a key of another task": {
        "experiment": {"stages": {"pretrain": {"task": {"kind": "masked_lm", "classifier_pooling": "cls"}}}}
    },
    "an unknown option": {"experiment": {"datasets": {"x": {"generated": {"options": {"lenght": 8}}}}}},
    "an unknown kind of table": {"report": {"tables": {"x": {"kind": "unheard_of"}}}},
    "a key of another table": {"report": {"tables": {"x": {"kind": "groups", "stage": "finetune", "columns": ["f1"]}}}},
    "a key of another figure": {"report": {"figures": {"x": {"kind": "group_score", "stage": "s", "time": ["s"]}}}},
    "a wrong type in what a stage shares": {"experiment": {"stages": {"pretrain": {"recipe": {"epochs": "ten"}}}}},
}


@pytest.mark.parametrize("values", WRONG.values(), ids=WRONG)
def test_the_schema_refuses(schema, values):
    assert not schema.is_valid(values)


def test_the_schema_accepts_options(schema):
    for options in ({}, {"length": 8}, {"pairs": 5, "test": 10}, {"pairs": [4]}):
        assert schema.is_valid({"experiment": {"datasets": {"x": {"generated": {"options": options}}}}})


def test_the_schema_lets_null_remove_an_entry(schema):
    removed = {"experiment": {"mechanisms": {"sdpa": None}}, "report": {"tables": {"tapt": None}}}
    removed["report"]["figures"] = {"f1_time": None}
    removed["experiment"]["stages"] = {"finetune": {"data": {"arxiv": None}, "variants": {"recipe.batch_size": None}}}
    removed["experiment"]["stages"]["search"] = {"tuning": {"space": {"recipe.batch_size": None}}}
    removed["experiment"]["models"] = {
        "a": {"changes": {"finetune": None}},
        "b": {"changes": {"tapt": {"data": {"imdb": None}}}},
        "c": {"changes": None},
    }
    removed["experiment"]["datasets"] = {"imdb": {"split": {"documents": {"train": None}}, "local": {"files": None}}}
    assert schema.is_valid({"extends": "config.yaml", **removed})


# Studies


def test_every_shipped_study_is_valid(repository):
    for path in shipped():
        load_study(read_layers([path]))


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_COMMIT = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"


def test_the_studies_in_the_documentation_are_valid(repository, tmp_path, schema, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
    fields = {"model_type": "bert", **dict.fromkeys(sizes, 512)}
    cached = tmp_path / "cache" / f"models--{MINILM.replace('/', '--')}" / "snapshots" / MINILM_COMMIT
    for folder in (tmp_path / "data" / "all-MiniLM-L6-v2", cached):  # where the pages name the published model
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    # The study of add_mechanism.md needs the mechanism of that page; test_readme.py plans it.
    pages = sorted(set((repository / "docs").glob("*.md")) - {repository / "docs/add_mechanism.md"})
    studies = [block for page in pages for block in blocks(page, "yaml") if block.startswith("# config/")]
    assert studies
    for path in shipped():
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    named = {tmp_path / block.splitlines()[0].removeprefix("# config/"): block for block in studies}
    assert len(named) == len(studies)
    for path, block in named.items():  # which may extend each other
        path.write_text(block, encoding="utf-8")
    for path, block in named.items():
        plan = Plan(load_study(read_layers([path])))
        assert plan.runs
        assert plan.paths.results != "results", "a study has a results folder of its own"
        assert schema.is_valid(yaml.safe_load(block))
