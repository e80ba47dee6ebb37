"""Heads of a published encoder that know grammar, by the program that is run by hand."""

import runpy
from pathlib import Path

import pandas as pd
import pytest

pytestmark = [pytest.mark.real, pytest.mark.extended]
PROGRAM = Path(__file__).resolve().parents[3] / "studies/published/scripts/relations.py"


def test_heads_of_a_published_encoder(minilm, tmp_path):
    main = runpy.run_path(str(PROGRAM))["main"]
    main(["--model", str(minilm), "--sentences", "120", "--out", str(tmp_path)])
    frame = pd.read_csv(tmp_path / "relations.csv")
    heads = frame[frame["chosen"] & (frame["by"] == "head")].set_index(["when", "relation"])
    for relation in ("determiner", "adjective", "pronoun", "name"):
        assert heads.loc[("after", relation), "difference_low"] > 0, relation
        assert heads.loc[("before", relation), "difference"] < 0, relation
    assert "| minilm  | after" in (tmp_path / "relations.md").read_text()
    assert all((tmp_path / f"relations.{suffix}").stat().st_size > 5000 for suffix in ("svg", "png"))
