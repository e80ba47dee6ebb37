"""What a study asks for before anything ran, from the plan of Snakemake itself."""

import re
import runpy
from pathlib import Path

import pytest
import yaml
from small_studies import SMALL, changed

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/tools/status.py"


def ask(folder, monkeypatch, capsys, gpu):
    """Return the rows and the whole answer of `make status` about a small study."""
    own = changed(SMALL, *((f"execution/{name}", str(folder / name)) for name in ("results", "resources")))
    own["execution"]["job"] = {"gpu": gpu, "cpus_per_task": 4, "mem_mb": 8_000}
    own["report"] = {"tables": {"f1": {"stage": "finetune", "columns": ["f1"]}}}
    (folder / "small.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
    monkeypatch.chdir(folder)
    assert runpy.run_path(str(PROGRAM))["main"](["--configfile", "small.yaml"]) == 0
    said = capsys.readouterr().out
    return {line.split()[0]: line.split()[1:] for line in said.splitlines() if line[:1].isalpha()}, said


def storage(said):
    """Return the table of downloads and disk: number and GB of what has a row."""
    lines = said.partition("downloads and disk")[2].partition("\n\n")[0].splitlines()[1:]
    return {line[:24].strip(): [line[24:39].strip(), line[39:54].strip()] for line in lines}


@pytest.mark.extended
@pytest.mark.parametrize("gpu", [0, 1])
def test_needs_before_anything_ran(tmp_path, monkeypatch, capsys, gpu):
    rows, said = ask(tmp_path, monkeypatch, capsys, gpu)
    assert re.search(r"nothing has run yet\. 34 runs in \d+ jobs\.\nHours and memory are limits .* of a cluster", said)
    assert [rows[stage][0] for stage in ("pretrain", "tapt", "finetune")] == ["6", "12", "16"]
    if gpu:
        hours = 6 * 15 / 60
        assert rows["pretrain"][1:3] == [f"{hours:.1f}", f"{4 * hours:.1f}"]
        assert "Unknown (?): 4 runs on a CPU" in said
    else:
        assert rows["pretrain"][1:4] == ["0", "unknown", "unknown"]
        assert "Unknown (?): 34 runs on a CPU" in said
    assert rows["pretrain"][-2:] == ["8", "GB"]
    models, size = storage(said)["models of the runs"]
    assert (models, size[-4:]) == ("34", " + ?"), "the baselines' sizes are unknown"
    assert not (tmp_path / "results").exists(), "nothing is made"
