"""What a study asks for before anything ran, from the plan of Snakemake itself."""

import runpy
from pathlib import Path

import pytest
import yaml
from studies import SMALL, changed

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/tools/status.py"


def ask(folder, monkeypatch, capsys, gpu):
    """Return the rows and the whole answer of `make status` about a small study."""
    own = changed(SMALL, ("execution/results", str(folder / "results")), ("execution/resources", str(folder / "down")))
    own["execution"]["job"] = {"gpu": gpu, "cpus_per_task": 4, "mem_mb": 8_000}
    own["report"] = {"tables": {"f1": {"stage": "finetune", "columns": ["f1"]}}}
    (folder / "small.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
    monkeypatch.chdir(folder)
    assert runpy.run_path(str(PROGRAM))["main"](["--configfile", "small.yaml"]) == 0
    said = capsys.readouterr().out
    return {line.split()[0]: line.split()[1:] for line in said.splitlines() if line[:1].isalpha()}, said


@pytest.mark.parametrize("gpu", [0, 1])
def test_a_study_says_what_it_asks_for_before_anything_ran(tmp_path, monkeypatch, capsys, gpu):
    rows, said = ask(tmp_path, monkeypatch, capsys, gpu)
    assert "nothing has run yet. 34 runs in " in said
    assert [rows[stage][0] for stage in ("pretrain", "tapt", "finetune")] == ["6", "12", "16"]
    if gpu:
        hours = 6 * 15 / 60
        assert rows["pretrain"][1:3] == [f"{hours:.1f}", f"{4 * hours:.1f}"]
        assert "Unknown (?): 4 runs on a CPU" in said
    else:
        assert rows["pretrain"][1:4] == ["0", "unknown", "unknown"]
        assert "Unknown (?): 34 runs on a CPU" in said
    assert rows["pretrain"][-2:] == ["8", "GB"]
    assert "Downloads: none." in said
    assert not (tmp_path / "results").exists(), "nothing is made"
