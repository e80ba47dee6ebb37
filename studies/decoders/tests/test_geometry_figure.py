"""Geometry by step: means over layers, bands over layers, what random matrices have, and what could have moved."""

import pytest
from run_records import scope_of, write_geometry, write_run

from studies.decoders.results.kinds.geometry import GeometryFigure

pytestmark = pytest.mark.extended


def rows_of(values, **fields):
    """One row per step and layer from {step: [value of each layer]}."""
    measure = fields.pop("measure", "symmetry")
    return [
        {"step": step, "layer": layer, measure: value, **fields}
        for step, layers in values.items()
        for layer, value in enumerate(layers)
    ]


def write(root, model, *rows, dataset="imdb", seed=0):
    return write_geometry(write_run(root, "tapt", model, dataset, seed=seed), *rows)


def drawn(folders, models=("llama",), datasets=("imdb",), **settings):
    settings = {"measure": "symmetry"} | settings
    scope = scope_of(folders, {"tapt": datasets}, list(models))
    return GeometryFigure(kind="geometry", stage="tapt", **settings).draw(scope)


def lines_of(axes):
    return {line.get_gid(): line for line in axes.lines}


def band_of(collection, step):
    corners = collection.get_paths()[0].vertices
    values = corners[corners[:, 0] == step][:, 1]
    return values.min(), values.max()


def test_lines_and_bands_over_layers(tmp_path):
    folders = [write(tmp_path, "llama", *rows_of({0: [0.1, 0.3], 100: [0.2, 0.2]}))]
    folders += [write(tmp_path, "gemma", *rows_of({0: [0.5, 0.5], 100: [0.6, 0.8]}))]
    figure = drawn(folders, ["llama", "gemma"])
    (axes,) = figure.axes
    assert lines_of(axes)["llama"].get_xydata().tolist() == [[0, pytest.approx(0.2)], [100, pytest.approx(0.2)]]
    assert lines_of(axes)["gemma"].get_ydata().tolist() == pytest.approx([0.5, 0.7])
    first, _ = axes.collections
    assert band_of(first, 0) == pytest.approx((0.2 - 0.02**0.5, 0.2 + 0.02**0.5))
    assert band_of(first, 100) == pytest.approx((0.2, 0.2))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("optimiser step", "symmetry of merged weights")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["llama", "gemma"]


def test_lines_and_bands_over_seeds(tmp_path):
    folders = [
        write(tmp_path, "llama", *rows_of({0: [0.1 + shift, 0.3 + shift]}), seed=seed)
        for seed, shift in enumerate((-0.4, 0.4))
    ]
    (axes,) = drawn(folders).axes
    assert lines_of(axes)["llama"].get_ydata().tolist() == pytest.approx([0.2])
    assert band_of(axes.collections[0], 0) == pytest.approx((0.2 - 0.02**0.5, 0.2 + 0.02**0.5))


def test_lines_of_weights_positions_and_heads(tmp_path):
    rows = [
        {"symmetry": 0.1},
        {"symmetry": 0.2, "position": 8},
        {"symmetry": 0.4, "position": -8},
        {"symmetry": 0.5, "weights": "delta"},
        {"symmetry": 0.6, "weights": "adapter"},
        {"symmetry": 0.7, "head": 0},
        {"symmetry": 0.9, "head": 1},
        {"symmetry": None, "weights": "delta", "step": 100},
        *({"weights": "delta", "position": place} for place in (8, -8)),
    ]
    folder = write(tmp_path, "llama", *rows)
    for settings, expected in (
        ({}, 0.1),
        ({"positions": [8]}, 0.2),
        ({"positions": [8, -8]}, 0.3),
        ({"weights": "delta"}, 0.5),
        ({"weights": "adapter"}, 0.6),
        ({"per": "head"}, 0.8),
    ):
        (axes,) = drawn([folder], **settings).axes
        assert lines_of(axes)["llama"].get_ydata().tolist() == pytest.approx([expected]), settings
    (axes,) = drawn([folder], positions=[8, -8]).axes
    assert axes.get_ylabel() == "symmetry of merged weights,\nkeys at +8, -8"
