import json
import re

import jsonschema
import pytest
import yaml

from lib.analysis.settings import ANALYSES
from lib.attention.settings import MECHANISMS
from lib.backbones.settings import BACKBONES
from lib.preparing.generators import options_class
from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import SHIPPED, load_study, read_layers
from lib.tasks.settings import TASKS
from lib.workflow.commands.config_reference import config_readme, config_schema
from lib.workflow.planning.plan import Plan

AGAIN = "run: python scripts/tools/config_reference.py"


def fields(*sections):
    return {name for section in sections for name in section.model_fields}


def test_reference_is_up_to_date(repository):
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


def test_kind_has_a_table_of_its_keys():
    """A table and a figure may share the name of their kind. Options of generators have tables, too."""
    tables = {part.splitlines()[0]: part for part in config_readme().split("\n### ")}
    for axis, place in PLACES.items():
        for kind in axis.kinds():
            for name, field in axis.settings(kind).model_fields.items():
                name = field.alias or name
                assert f"\n| `{name}` |" in tables[f"`{place}` with `kind: {kind}`"], (kind, name)
    for name in ("brackets", "listops"):
        (title,) = (title for title in tables if f"with `generator: {name}`" in title)
        assert all(f"\n| `{option}` |" in tables[title] for option in options_class(name).model_fields)


@pytest.fixture(scope="module")
def schema():
    return jsonschema.Draft202012Validator(json.loads(config_schema()))


def test_schema_accepts_every_shipped_study(schema):
    for path in sorted(SHIPPED.values()):
        problems = [error.message for error in schema.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8")))]
        assert not problems, path


WRONG = {
    "an unknown key": {"experimnt": {}},
    "an unknown key of a kind": {"experiment": {"mechanisms": {"sdpa": {"kind": "sdpa", "chunk_size": 64}}}},
    "a key of another task": {
        "experiment": {"stages": {"pretrain": {"task": {"kind": "masked_lm", "classifier_pooling": "cls"}}}}
    },
    "an unknown option": {"experiment": {"datasets": {"x": {"generated": {"options": {"lenght": 8}}}}}},
}


def test_schema_refuses_what_is_wrong(schema):
    assert [name for name, values in WRONG.items() if schema.is_valid(values)] == []
    for options in ({}, {"length": 8}, {"pairs": 5, "test": 10}, {"pairs": [4]}):
        assert schema.is_valid({"experiment": {"datasets": {"x": {"generated": {"options": options}}}}})


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_COMMIT = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"


def test_studies_of_the_pages_are_valid(repository, tmp_path, schema, monkeypatch):
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
    for path in SHIPPED.values():
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
