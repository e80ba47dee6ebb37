import json
import runpy
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from run_records import MODELS, scope_of, write_baseline, write_run

from lib.core.errors import DataError
from lib.core.program import run as run_program
from lib.results.kinds.stage import StageTable
from lib.results.table import Key

PROGRAM = Path(__file__).resolve().parents[4] / "scripts/table.py"
DATASETS = ["imdb", "arxiv"]
COSTS = ["memory", "minutes", "loss"]


def table(folders, stages, columns, models, **fields):
    return StageTable(stage=list(stages), columns=columns).make(scope_of(folders, stages, models, **fields))


def test_rows_and_columns_of_a_stage(tmp_path):
    figures = {"peak_memory_mb": 2048.0, "seconds_per_epoch": 90.0, "train_loss": 2.34567}
    folders = [write_run(tmp_path, "tapt", model, dataset, **figures) for model in MODELS for dataset in DATASETS]
    made = table(folders, {"tapt": DATASETS}, COSTS, MODELS[::-1])
    read = pd.read_csv(StringIO(made.to_csv()))
    assert read["model"].tolist() == MODELS[::-1]
    names = [f"{at}_{name}" for at in DATASETS for name in ("peak_memory_gib", "minutes_per_epoch", "loss")]
    assert read.columns.tolist() == ["model", *names, "memory_kind"]
    assert read.iloc[0, 1:].tolist() == [2.0, 1.5, 2.346, 2.0, 1.5, 2.346, "resident"]
    assert "| imdb loss |" in " ".join(made.to_markdown().splitlines()[0].split())


def cells_of(made):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in made.to_markdown().splitlines()]


def test_mean_and_deviation_of_seeds(tmp_path):
    folders = [
        write_run(tmp_path, "finetune", "sdpa", "imdb", seed=seed, test_f1_macro=score)
        for seed, score in enumerate((0.90, 0.92, 0.94))
    ]
    folders += [write_baseline(tmp_path, "imdb", 0.895, seed=seed) for seed in range(3)]
    made = table(folders, {"finetune": ["imdb"]}, ["f1"], ["tfidf", "sdpa"])
    assert made.to_csv() == "model,imdb,imdb_sd\ntfidf,89.50,0.00\nsdpa,92.00,2.00\n"
    cells = cells_of(made)
    assert cells[0] == ["model", "imdb F1 [%]"]
    assert cells[2:4] == [["tfidf", "89.50 ± 0.00"], ["sdpa", "92.00 ± 2.00"]]


def test_run_without_training(tmp_path):
    """Its row has a dash, and an empty cell in the CSV; a run that trains owes the value."""
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", train_loss=0.5), write_baseline(tmp_path, "imdb", 0.895)]
    columns = ["memory", "minutes", "loss", "f1"]
    made = table(folders, {"finetune": ["imdb"]}, columns, ["tfidf", "sdpa"])
    assert cells_of(made)[2:4] == [
        ["tfidf", "1.00", "-", "-", "89.50", "resident"],
        ["sdpa", "1.00", "1.0", "0.500", "80.00", "resident"],
    ]
    assert made.to_csv().splitlines()[1:] == ["tfidf,1.00,,,89.50,resident", "sdpa,1.00,1.0000,0.500,80.00,resident"]
    lacking = [folders[1], write_run(tmp_path, "finetune", "sdpa", "imdb", seconds_per_epoch=None)]
    with pytest.raises(DataError, match=r"^(?!.*tfidf).*finetune/sdpa/imdb/seed-0.*seconds_per_epoch"):
        table(lacking, {"finetune": ["imdb"]}, ["minutes"], ["tfidf", "sdpa"])


def test_printed_values_beside_ours(tmp_path):
    folders = [write_run(tmp_path, "pretrain", model, "wikipedia") for model in ("sdpa", "favor-m1024")]
    stages = {"pretrain": ["wikipedia"]}
    made = table(folders, stages, COSTS, ["sdpa", "favor-m1024"], published="grid")
    assert made.frame[Key(("wikipedia", "loss", "published"))].tolist()[0] == 2.157
    assert pd.isna(made.frame[Key(("wikipedia", "loss", "published"))].tolist()[1])
    assert "NVIDIA A100" in made.to_markdown()
    parameters = table(folders, stages, ["parameters"], ["sdpa"], published="grid")
    assert parameters.to_csv() == "model,wikipedia\nsdpa,100\n"
    assert "published" not in table(folders, stages, COSTS, ["sdpa"]).to_csv()
    ours = [write_run(tmp_path, "published", "sdpa", dataset, test_f1_macro=0.9) for dataset in DATASETS]
    assert table(ours, {"published": DATASETS}, ["memory", "f1"], ["sdpa"]).note is None


# The program


@pytest.fixture
def make_table(tmp_path):
    """Run the program for a table of `columns`; return its status, and the three files as far as it wrote them."""
    main = runpy.run_path(str(PROGRAM))["main"]

    def run(stages, columns, models, *folders, **fields):
        settings = {"kind": "stage", "stage": [stage for stage, _ in stages], "columns": columns}
        owners = {stage: {model: dict.fromkeys(datasets, model) for model in models} for stage, datasets in stages}
        shown = {"settings": settings, "scope": {"models": models, "stages": stages, "owners": owners} | fields}
        out = [tmp_path / "t" / f"table.{suffix}" for suffix in ("csv", "md", "tex")]
        records = [str(folder / "run.json") for folder in folders]
        arguments = ["--table", json.dumps(shown), "--records", *records, "--out", *map(str, out)]
        return run_program(main, arguments), *(path.read_text() if path.exists() else None for path in out)

    return run


def test_program_writes_all_or_nothing(tmp_path, make_table):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", test_f1_macro=0.9)]
    folders += [write_baseline(tmp_path, "imdb", 0.8)]
    stages = [["finetune", ["imdb"]]]
    assert make_table(stages, ["f1"], ["tfidf", "sdpa", "favor-m64"], *folders) == (1, None, None, None)
    assert not (tmp_path / "t").exists()
    status, csv, markdown, latex = make_table(stages, ["f1"], ["tfidf", "sdpa"], *folders)
    assert (status, csv) == (0, "model,imdb\ntfidf,80.00\nsdpa,90.00\n")
    assert markdown.startswith("| model")
    assert "sdpa & 90.00 \\\\" in latex


FINETUNED = {"finetune": ["imdb"]}
BESIDE = {"reference": "sdpa", "baseline": "tfidf"}


def compared(folders, stages, models, columns=("f1",), stage=None, **fields):
    against = [name for name in ("reference", "baseline") if name in fields]
    settings = StageTable(stage=stage or list(stages), columns=list(columns), against=against)
    return settings.make(scope_of(folders, stages, models, **fields))


def test_differences_of_scores(tmp_path):
    folders = [write_run(tmp_path, "finetune", "sdpa", "imdb", test_f1_macro=0.9286)]
    folders += [write_run(tmp_path, "finetune", "favor-m64", "imdb", test_f1_macro=0.9116)]
    folders += [write_baseline(tmp_path, "imdb", 0.895)]
    made = compared(folders, FINETUNED, ["tfidf", "sdpa", "favor-m64"], **BESIDE)
    assert made.to_csv() == (
        "model,imdb,imdb_against_sdpa,imdb_against_tfidf\n"
        "tfidf,89.50,-3.36,\n"
        "sdpa,92.86,,+3.36\n"
        "favor-m64,91.16,-1.70,+1.66\n"
    )
    header, *_ = made.to_markdown().splitlines()
    assert "| imdb F1 [%] | imdb F1 against sdpa [points] |" in " ".join(header.split()).replace("  ", " ")
    alone = compared(folders, FINETUNED, ["favor-m64"], **BESIDE).to_csv()
    assert alone.splitlines()[1] == "favor-m64,91.16,-1.70,+1.66"
