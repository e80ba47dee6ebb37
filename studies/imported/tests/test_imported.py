"""Foreign records through Snakemake: nothing is trained or downloaded, and a gap stops it before the first job."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from lib.study.configuration import load_study, read_layers

pytestmark = pytest.mark.study

ROOT = Path(__file__).resolve().parents[3]
REPORT = load_study(read_layers([ROOT / "studies/imported/imported.yaml"])).report
STUDY = {
    "extends": "studies/imported/imported.yaml",
    "experiment": {
        "models": {
            f"{kind}-{size}": None
            for kind, size in [
                *(("favor", size) for size in ("m64", "m128", "m256", "m512")),
                *(("lsh", size) for size in ("h2-c128", "h4-c64", "h4-c128")),
            ]
        }
    },
    "report": {
        "tables": dict.fromkeys(set(REPORT.tables) - {"lsh_mask", "pretrain"}),
        "figures": dict.fromkeys(REPORT.figures),
        "opens_with": None,
    },
    "execution": {"results": "results/theirs"},
}
SHARED = {"stage": "pretrain", "dataset": "wikipedia", "seed": 420, "epochs": 10, "learning_rate": 5e-4}
SHARED |= {"batch_size": 64, "grad_accum_steps": 1, "peak_gpu_mem_mb": 2048.0, "runtime_s": 1200.0}
LSH = {"attention": "lsh", "num_hashes": 2, "chunk_size": 64}


def bring(project, *runs):
    history = [
        {
            "run": run["run"],
            "elapsed_s": 60.0 * epoch,
            "train/epoch": float(epoch),
            "train/avg_epoch_loss": 5 - epoch / 8,
        }
        for run in runs
        for epoch in range(1, 11)
    ]
    pd.DataFrame([SHARED | run for run in runs]).to_parquet(project.folder / "runs.parquet")
    columns = [*history[0], "eval/epoch", "test/epoch"]
    pd.DataFrame(history, columns=columns).to_parquet(project.folder / "history.parquet")


def import_runs(project, out):
    """Import what was brought to a folder of results, and return the finished process."""
    program = [
        sys.executable,
        "studies/imported/scripts/import_runs.py",
        "--runs",
        "runs.parquet",
        "--history",
        "history.parquet",
    ]
    return subprocess.run(
        [*program, "--out", out],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_tables_of_imported_runs(copy_of_repository):
    project = copy_of_repository("imported")
    study = project.configure(STUDY)
    theirs = [{"run": "a_1", "attention": "mha"}, LSH | {"run": "b_2", "mask_within_chunks": False}]
    bring(project, *theirs)
    assert import_runs(project, "results/theirs").returncode == 0

    missing = project.snakemake("--cores", 1, "--configfile", study, check=False)
    assert missing.returncode == 1
    assert "results/theirs/runs/pretrain/lsh-h2-c64-masked/wikipedia/seed-420: no record. Import" in missing.stdout

    bring(project, *theirs, LSH | {"run": "c_3", "mask_within_chunks": True})
    again = import_runs(project, "results/theirs")
    assert (again.returncode, "results/theirs/runs: exists" in again.stderr) == (1, True)
    assert import_runs(project, "results/whole").returncode == 0
    study = project.configure(STUDY | {"execution": {"results": "results/whole"}})
    project.snakemake("--cores", 1, "--configfile", study)
    tables = project.folder / "results/whole/tables"
    assert sorted(path.name for path in tables.iterdir()) == [
        f"{name}.{suffix}" for name in ("lsh_mask", "pretrain") for suffix in ("csv", "html", "md", "tex")
    ]
    table = pd.read_csv(tables / "pretrain.csv").set_index("model")
    assert table.index.tolist() == ["sdpa", "lsh-h2-c64", "lsh-h2-c64-masked"]
    assert table["wikipedia_loss"].tolist() == [3.75] * 3
    assert table["wikipedia_minutes_per_epoch"].tolist() == [2.0] * 3
    assert table.loc["sdpa", "wikipedia_loss_published"] == 2.157
    assert not (project.folder / "resources").exists()
