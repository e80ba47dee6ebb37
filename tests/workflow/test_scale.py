"""Planning a study of a thousand models; `/usr/bin/time -v` before the command says what it takes."""

import re

import pytest
import yaml

pytestmark = pytest.mark.slow
ROWS = 143
"""Rows of the grid; each has seven runs, so that there are 1,001 models."""


def test_a_thousand_models_are_planned(copy_of_repository):
    project = copy_of_repository("scale")
    grid = yaml.safe_load((project.folder / "config/config.yaml").read_text())["experiment"]
    names = [f"favor-m{2 * number}" for number in range(1, ROWS)]
    mechanisms = dict.fromkeys(set(grid["mechanisms"]) - {"sdpa"})
    mechanisms |= {name: {"kind": "favor", "nb_features": int(name.removeprefix("favor-m"))} for name in names}
    models = dict.fromkeys(set(grid["models"]) - {"sdpa", "tfidf"})
    models |= {name: {"backbone": "encoder", "mechanism": name} for name in names}
    study = {"extends": "config/config.yaml", "experiment": {"mechanisms": mechanisms, "models": models}}
    plan = project.snakemake("-n", "--quiet", "rules", "--configfile", project.configure(study)).stdout
    found = set(re.findall(r"^run +(\d+)$", plan, re.MULTILINE))  # said at the beginning and at the end
    assert found == {f"{(4 + 3) * ROWS + 3}"}
