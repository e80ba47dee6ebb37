"""First and last geometry of each model, beside random matrices and what an update could have moved."""

import numpy as np
import pytest
from run_records import scope_of, write_geometry, write_run

from lib.core.errors import DataError
from lib.results.settings import TABLES

pytestmark = pytest.mark.extended


def table(folders, models, **settings):
    parsed = TABLES.parse({"kind": "geometry", "stage": "tapt", **settings})
    return parsed.make(scope_of(folders, {"tapt": ["imdb"]}, models))


def rows(symmetry, directionality, **fields):
    """A row for each of two layers, which lie 0.1 below and above."""
    return [
        {"layer": layer, "symmetry": symmetry + shift, "directionality": directionality + shift, **fields}
        for layer, shift in enumerate((-0.1, 0.1))
    ]


def test_table_of_weights_and_updates(tmp_path):
    merged = [*rows(0.2, -0.5), *rows(0.3, -0.4, step=50), *rows(0.25, -0.45, step=100)]
    delta = [
        *rows(0.6, 0.1, weights="delta", step=50, bound=0.02),
        *rows(0.7, 0.2, weights="delta", step=100, bound=0.04),
    ]
    random = [*rows(0.01, 0.0, source="random"), *rows(0.02, 0.0, source="random", weights="delta")]
    folders = [write_geometry(write_run(tmp_path, "tapt", "lora", "imdb"), *merged, *delta, *random)]
    folders += [write_geometry(write_run(tmp_path, "tapt", "full", "imdb"), *rows(0.5, 0.0, upper_triangle=0.4))]
    made = table(folders, ["full", "lora"])
    assert made.to_markdown().splitlines()[0].replace(" ", "").strip("|").split("|") == [
        "model", "weights", "symmetryfirst", "symmetrylast", "symmetryrandom", "largestmovepossible",
        "directionalityfirst", "directionalitylast", "directionalityrandom", "latertokensfirst", "latertokenslast",
    ]  # fmt: skip
    frame = made.frame.set_index(["model", "weights"])
    assert list(frame.index) == [("full", "merged"), ("lora", "merged"), ("lora", "delta")]
    assert frame.loc[("lora", "merged"), ["symmetry_first", "symmetry_last", "largest_move"]].tolist() == pytest.approx(
        [0.2, 0.25, 0.04]
    )
    assert frame.loc[("lora", "delta"), ["directionality_first", "directionality_last"]].tolist() == pytest.approx(
        [0.1, 0.2]
    )
    assert frame["symmetry_random"].tolist() == pytest.approx([float("nan"), 0.01, 0.02], nan_ok=True)
    assert frame["symmetry_last_sd"].tolist() == pytest.approx([0.02**0.5] * 3)
    assert frame["later_last"].tolist() == pytest.approx([0.4, float("nan"), float("nan")], nan_ok=True)
    assert "0.500 ± 0.141" in made.to_markdown()
    assert "±: standard deviation over layers." in made.to_markdown()
    assert list(table(folders, ["full", "lora"], weights=["delta"]).frame["model"]) == ["lora"]


def test_table_of_random_matrices(tmp_path):
    """Two draws per seed, which lie apart by as much as those of other seeds."""
    drawn = [[0.1, 0.3], [0.3, 0.1], [0.2, 0.2]]
    folders = [
        write_geometry(
            write_run(tmp_path, "tapt", "full", "imdb", seed=seed),
            *rows(0.5, 0.0),
            *({"layer": draw, "symmetry": value, "source": "random"} for draw, value in enumerate(values)),
        )
        for seed, values in enumerate(drawn)
    ]
    (row,) = table(folders, ["full"]).frame.to_dict("records")
    assert row["symmetry_random"] == pytest.approx(0.2)
    assert row["symmetry_random_sd"] == pytest.approx(np.std(drawn, ddof=1))


def test_table_of_two_trainings_of_a_model(tmp_path):
    folders = [
        write_geometry(write_run(tmp_path, stage, "sdpa", "uk"), *rows(symmetry, 0.0))
        for stage, symmetry in (("mlm", 0.5), ("mntp", 0.1))
    ]
    settings = TABLES.parse({"kind": "geometry", "stage": ["mlm", "mntp"]})
    with pytest.raises(DataError, match="mlm and mntp"):
        settings.make(scope_of(folders, {"mlm": ["uk"], "mntp": ["uk"]}, ["sdpa"]))
