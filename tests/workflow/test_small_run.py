"""The workflow from generated raw text to tables, figure and report, and what an edit makes stale."""

import json

import pandas as pd
import pytest

from lib.core.record import read_record

CONFIG = ("config/demo.yaml", "config.test.yaml")
MODELS = ["sdpa", "lsh-h2-c64", "favor-m64"]


def test_every_run_leaves_its_record(finished):
    for stage, dataset in (("pretrain", "wikipedia"), ("tapt", "imdb"), ("finetune", "imdb")):
        for model in MODELS:
            folder = finished.results / "runs" / stage / model / dataset / "seed-420"
            record = read_record(folder)
            assert (record.stage, record.model, record.dataset, record.seed) == (stage, model, dataset, 420)
            assert (folder / "model" / "model.safetensors").is_file()
            assert (folder / "predictions.parquet").is_file() == (stage == "finetune")
    assert not (finished.results / "work").exists(), "working checkpoints stay behind"


def test_a_run_names_its_parents_by_their_digests(finished):
    def digest(stage, dataset, name):
        run = finished.results / "runs" / stage / "favor-m64" / dataset / "seed-420"
        return json.loads((run / "run.json").read_text())["parents"][name]

    assert digest("tapt", "imdb", "start")["path"].endswith("pretrain/favor-m64/wikipedia/seed-420/model")
    assert digest("tapt", "imdb", "tokenizer") == digest("finetune", "imdb", "tokenizer")
    assert digest("tapt", "imdb", "start")["digest"] != digest("finetune", "imdb", "start")["digest"]


def test_the_tables_have_no_hole(finished):
    tables = finished.results / "tables"
    names = {path.stem for path in tables.glob("*.csv")}
    assert names == {"token_lengths", "pretrain", "tapt", "finetune", "f1", "baseline_imdb"}
    for name in names:
        assert pd.read_csv(tables / f"{name}.csv").notna().all(axis=None), name
        assert (tables / f"{name}.md").read_text().startswith("|")
    f1 = pd.read_csv(tables / "f1.csv")
    assert f1["model"].tolist() == ["tfidf", *MODELS]


def test_the_figure_and_the_report(finished):
    assert (finished.results / "figures" / "f1_time.svg").stat().st_size > 5_000
    report = finished.results / "report.html"
    finished.snakemake("--configfile", *CONFIG, "--report", report)
    text = report.read_text()
    assert "f1_time" in text
    assert "Reformer" in text


def test_a_second_start_has_nothing_to_do(finished):
    output = finished.snakemake("--cores", 1, "--configfile", *CONFIG).stdout
    assert "Nothing to be done" in output


DOWNSTREAM = {"table_finetune": 1, "table_f1": 1, "table_tapt": 1, "table_pretrain": 1, "figure_f1_time": 1, "all": 1}


def test_a_mechanisms_parameter_makes_its_own_runs_stale_and_no_others(finished):
    mask = {"experiment": {"mechanisms": {"lsh-h2-c64": {"mask_within_chunks": True}}}}
    stale = finished.stale(*CONFIG, finished.configure(mask, "mask.yaml"))
    stale.pop("total")
    assert stale == {"pretrain": 1, "tapt": 1, "finetune": 1, **DOWNSTREAM}


def test_execution_settings_make_nothing_stale(finished):
    how = {"execution": {"training": {"micro_batch_tokens": 1024, "checkpoint_minutes": 1}, "job": {"mem_mb": 1000}}}
    assert finished.stale(*CONFIG, finished.configure(how, "how.yaml")) == {}


def test_a_recipe_makes_its_stage_stale(finished):
    recipe = {"experiment": {"finetune": {"imdb": {"head": {"classifier_dropout": 0.3}}}}}
    stale = finished.stale(*CONFIG, finished.configure(recipe, "recipe.yaml"))
    assert stale["finetune"] == 3
    assert not {"tapt", "pretrain", "tokenize_dataset", "baseline"} & set(stale)


@pytest.fixture
def edit(finished):
    """Edit a file of the project for the time of a test."""
    originals = {}

    def replace(name, old, new):
        path = finished.folder / name
        originals.setdefault(path, path.read_text())
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    yield replace
    for path, text in originals.items():
        path.write_text(text)


def test_an_edit_of_one_mechanism_makes_its_runs_stale(finished, edit):
    edit("lib/attention/lsh.py", "import torch\n", "import torch\n\nEDITED = True\n")
    stale = finished.stale(*CONFIG)
    assert (stale["pretrain"], stale["tapt"], stale["finetune"]) == (1, 1, 1)
    assert not {"tokenize_dataset", "baseline", "prepare_dataset"} & set(stale)


def test_an_edit_of_the_classification_head_leaves_pretraining_alone(finished, edit):
    edit("lib/encoder/classification_head.py", "import nn\n", "import nn\n\nEDITED = True\n")
    stale = finished.stale(*CONFIG)
    assert stale["finetune"] == 3
    assert not {"pretrain", "tapt"} & set(stale)


def test_a_comment_makes_nothing_stale(finished, edit):
    for name in ("lib/attention/lsh.py", "lib/training/run.py", "lib/encoder/block.py", "scripts/finetune.py"):
        edit(name, "\nfrom ", "\n# a comment, and a line\n\nfrom ")
    assert finished.stale(*CONFIG) == {}


def test_a_foreign_damage_stops_the_job_and_leaves_no_half_result(finished, edit):
    """A job that fails for want of its input says so in its log and leaves none of its outputs."""
    tokens = finished.results / "data" / "imdb" / "tokens" / "test"
    (data,) = tokens.glob("*.arrow")
    content = data.read_bytes()
    target = "results/demo/runs/finetune/sdpa/imdb/seed-420/run.json"
    run = (finished.folder / target).parent
    try:
        data.write_bytes(content[: len(content) // 2])
        process = finished.snakemake(
            "--cores", 1, "--configfile", *CONFIG, "--forcerun", "finetune", "--", target, check=False
        )
        assert process.returncode
        assert "not a tokenised split" in (finished.results / "logs/finetune/sdpa/imdb/seed-420.log").read_text()
        assert not (run / "run.json").exists()
        assert not (run / "model").exists()
    finally:
        data.write_bytes(content)
        finished.snakemake("--cores", 2, "--configfile", *CONFIG)
