"""Geometry by step: means over layers, bands over layers, what random matrices have, and what could have moved."""

import pytest
from run_records import scope_of, write_geometry, write_run
from small_studies import study

from lib.core.errors import ConfigError, DataError
from studies.decoders.results.kinds.geometry import GeometryFigure

SECTION = ("stages/tapt/geometry", {"every": 100})


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


def test_lines_are_means_over_layers_and_bands_one_deviation_over_layers(tmp_path):
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


def test_seeds_are_averaged_before_the_layers_so_that_the_band_is_over_layers_alone(tmp_path):
    folders = [
        write(tmp_path, "llama", *rows_of({0: [0.1 + shift, 0.3 + shift]}), seed=seed)
        for seed, shift in enumerate((-0.4, 0.4))
    ]
    (axes,) = drawn(folders).axes
    assert lines_of(axes)["llama"].get_ydata().tolist() == pytest.approx([0.2])
    assert band_of(axes.collections[0], 0) == pytest.approx((0.2 - 0.02**0.5, 0.2 + 0.02**0.5))


def test_weights_positions_and_heads_are_told_apart(tmp_path):
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


def test_random_matrices_are_a_line_of_their_own(tmp_path):
    rows = rows_of({0: [0.5, 0.5]}) + rows_of({0: [-0.1, 0.3]}, source="random")
    rows += rows_of({0: [0.2, 0.4]}, source="random", weights="delta")
    figure = drawn([write(tmp_path, "llama", *rows)])
    (axes,) = figure.axes
    assert lines_of(axes)["random matrices"].get_ydata() == pytest.approx([0.1, 0.1])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["llama", "random matrices"]


def test_below_merged_symmetry_stands_what_the_updates_could_have_moved(tmp_path):
    delta = [{"weights": "delta", "step": step, "symmetry": 0.3, "bound": bound}
             for step, bound in ((0, None), (50, 0.5), (100, 0.04))]  # fmt: skip
    folder = write(tmp_path, "llama", *rows_of({0: [0.1], 100: [0.1]}), *delta)
    plain = write(tmp_path, "plain", *rows_of({0: [0.1]}))
    figure = drawn([folder, plain], ["llama", "plain"])
    assert figure.get_supxlabel().replace("\n", " ") == (
        "An update as large as the one learnt could move symmetry by at most: llama 0.04."
    )
    for settings in ({"weights": "delta"}, {"measure": "directionality"}):
        rows = [{"directionality": 0.1}, *delta]
        assert drawn([write(tmp_path, "other", *rows)], ["other"], **settings).get_supxlabel() == ""


def test_what_the_model_computes_has_no_random_matrices(tmp_path):
    rows = rows_of({0: [0.1, 0.3]}, measure="upper_triangle") + rows_of({0: [0.5]}, source="random")
    rows += rows_of({100: [2.0, 4.0]}, measure="gradient_norm")
    folder = write(tmp_path, "llama", *rows)
    (axes,) = drawn([folder], measure="upper_triangle").axes
    assert list(lines_of(axes)) == ["llama"]
    assert axes.get_ylabel() == "attention to later tokens\n(share of squared weights)"
    (axes,) = drawn([folder], measure="gradient_norm").axes
    assert lines_of(axes)["llama"].get_xydata().tolist() == [[100, 3]]


def test_what_was_not_measured_is_named(tmp_path):
    folder = write(tmp_path, "llama", *rows_of({0: [0.1]}))
    with pytest.raises(DataError, match=r"positions: 8 .*tapt.*: 0"):
        drawn([folder], positions=[0, 8])
    with pytest.raises(DataError, match="tapt .*symmetry.*'delta'"):
        drawn([folder], weights="delta")


@pytest.mark.parametrize(
    ("shown", "changes", "problem"),
    [
        ({"measure": "symmetry"}, [], "figures.x.stage: shows geometry, which runs of sdpa, .* at tapt lack"),
        ({"measure": "gradient_norm", "per": "head"}, [SECTION], "gradients are measured by layer"),
    ],
)
def test_a_study_is_told_what_cannot_be_shown(shown, changes, problem):
    report = ("report.yaml", {"report": {"figures": {"x": {"kind": "geometry", "stage": "tapt", **shown}}}})
    with pytest.raises(ConfigError, match=problem):
        study(*changes, layers=[report])
