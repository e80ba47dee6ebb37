"""Figures and summaries of the study's analyses, from tables made by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
from drawn_analyses import FAMILIES, assert_drawn, assert_said, draw, titles

pytestmark = pytest.mark.extended

TOKENS = ["null", "b", "a"]


BEFORE = [[0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.6, 0.2, 0.2]]


AFTER = [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


def maps(layers=1, models=FAMILIES):
    """The same document's maps in all models, layers and heads."""
    rows = []
    for model, layer, (when, weights) in itertools.product(
        models, range(layers), {"before": BEFORE, "after": AFTER}.items()
    ):
        for query, key in itertools.product(range(3), repeat=2):
            place = {"model": model, "when": when, "layer": layer, "head": 0, "query": query, "key": key}
            tokens = {"query_token": TOKENS[query], "key_token": TOKENS[key]}
            rows.append(place | tokens | {"weight": weights[query][key]})
    return pd.DataFrame(rows)


def gradients(factor=0.5):
    rows = [
        {"model": model, "when": when, "distance": distance, "sequences": 5, "gradient_norm": 4 * factor**distance}
        for model, when, distance in itertools.product(FAMILIES, ("before", "after"), (0, 1, 2, 5, 7))
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(relative=frame["gradient_norm"] / 4)


def embeddings():
    rows = []
    for model, representation in itertools.product(FAMILIES, ("static", "contextual")):
        for number in range(10):
            place = {"x": 0, "y": 0} if representation == "static" else {"x": number, "y": -number}
            quality = {"silhouette": 0.0, "accuracy": 0.5} if representation == "static" else {"silhouette": 0.9}
            row = {"model": model, "representation": representation, "word": "bank", "document": f"d{number}"}
            rows.append(row | {"label": ["river", "money"][number % 2], "accuracy": 1.0} | place | quality)
    return pd.DataFrame(rows)


def test_maps_of_models():
    figure = draw("attention_maps", maps())
    *grid, bar = figure.axes
    assert [axes.get_title("left") for axes in grid] == ["sdpa\nlayer 0, head 0", "favor-m64\nlayer 0, head 0", "", ""]
    for axes, expected in zip(grid, [BEFORE, BEFORE, AFTER, AFTER], strict=True):
        (image,) = axes.images
        assert np.array_equal(image.get_array(), expected)
        assert image.get_clim() == (0, 1)
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            assert [label.get_text() for label in labels] == TOKENS
    assert bar.get_ylabel() == "attention weight"


def test_gradients_from_distance_one():
    figure = draw("gradients", gradients())
    assert titles(figure) == ["drawn weights", "after training"]
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        lines = {line.get_gid(): line.get_xydata().tolist() for line in axes.lines}
        assert list(lines) == list(FAMILIES)
        assert all(line == [[distance, 0.5**distance] for distance in (1, 2, 5, 7)] for line in lines.values())
        assert axes.get_ylim()[0] < 0.5**7


def test_places_of_a_word():
    figure = draw("embeddings", embeddings())
    assert titles(figure) == ["static embedding, every model", "sdpa", "favor-m64"]
    static, sdpa, _ = figure.axes
    assert {tuple(point) for line in static.lines for point in line.get_xydata()} == {(0, 0)}
    assert [text.get_text() for text in static.texts] == ["all 10 documents"]
    points = {line.get_gid(): line.get_xydata().tolist() for line in sdpa.lines}
    assert points == {
        "money": [[number, -number] for number in (1, 3, 5, 7, 9)],
        "river": [[number, -number] for number in (0, 2, 4, 6, 8)],
    }
    assert static.get_xlabel() == "silhouette 0.00, accuracy 50 %"
    assert sdpa.get_xlabel() == "silhouette 0.90, accuracy 100 %"
    assert figure.legends[0].get_title().get_text() == "documents with\n'bank' by class"


FRAMES = {"attention_maps": maps, "gradients": gradients, "embeddings": embeddings}


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (
            "attention_maps",
            [
                "| model     | layer   | head   | when   |   mean of the greatest weights | strongest keys   |",
                "| sdpa      | 0       | 0      | before |                           0.63 | 2 1 0            |",
                "| favor-m64 | 0       | 0      | after  |                           1.00 | 2 1 0            |",
            ],
        ),
        (
            "gradients",
            [
                "| model     | when   | distance 0   | distance 1   | distance 2   | distance 5   | distance 7   |",
                "| sdpa      | after  | 1.0e+00      | 5.0e-01      | 2.5e-01      | 3.1e-02      | 7.8e-03      |",
                "Gradients as shares of the one at distance 0, of the last token itself.",
            ],
        ),
        (
            "embeddings",
            [
                "| sdpa      | bank   | static           |          10 |         0.00 |           50.0 |",
                "| favor-m64 | bank   | contextual       |          10 |         0.90 |          100.0 |",
            ],
        ),
    ],
)
def test_summaries(kind, lines):
    assert_said(kind, FRAMES[kind](), lines)


@pytest.mark.parametrize("kind", FRAMES)
def test_program_of_figures(kind, tmp_path):
    assert_drawn(kind, FRAMES[kind](), tmp_path)
    if kind == "attention_maps":
        assert "null" in (tmp_path / "one.svg").read_text(), "a word that pandas takes for a missing value"
