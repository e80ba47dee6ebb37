"""The shipped records give the shipped tables, and the decisions that were written before follow from them."""

import re

import pandas as pd
import pytest

from lib.backbones.hierarchical.settings import Settings

TABLES = "studies/long_reviews/tables"


@pytest.mark.extended
def test_tables_follow_from_the_records(repository, copy_of_repository):
    project, names = copy_of_repository("long_reviews"), ("f1", "significance", "rates")
    records = "execution={recorded: [studies/long_reviews/records]}"
    asked = [f"results/long_reviews/tables/{name}.md" for name in names]
    study = ("--configfile", "studies/long_reviews/long_reviews.yaml")
    project.snakemake("--cores", 2, *study, "--config", records, "--", *asked)
    for name, path in zip(names, asked, strict=True):
        lines = re.sub(r"\*\*|`", "", (project.folder / path).read_text()).splitlines()
        rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines if line.startswith("|")]
        del rows[1]
        shipped = pd.read_csv(repository / TABLES / f"{name}.csv", header=None, dtype=str)
        assert shipped.to_numpy().tolist() == rows


def test_decisions_follow_from_the_table(repository):
    table = pd.read_csv(repository / TABLES / "significance.csv").set_index(["model", "against"])
    low, high, corrected = (table[column] for column in ("95 % interval from", "to", "Holm p"))
    assert high["exact", "ends"] < 3 < high["segments", "ends"], "so the advice keeps segments in the study it writes"
    assert low["window", "exact"] > -3, "so the README recommends the window"
    assert f"{low['window', 'exact']:.1f} to {high['window', 'exact']:.1f}" in (repository / "README.md").read_text()
    assert corrected["segments-max", "segments"] > 0.05
    assert Settings.model_fields["pooling"].default == "mean"
