import itertools
import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.image import imread

from lib.core.program import run as run_program
from lib.measure.approximation import favor_error, lsh_recall
from lib.measure.figures import (
    FAVOR_LINES,
    favor_error_figure,
    lsh_recall_figure,
)
from lib.measure.tables import COLUMNS

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/measure_figure.py"
SVG_TEXT = "{http://www.w3.org/2000/svg}text"
NORMS, FEATURES, LENGTHS = [2, 8], [16, 64, 256, 1024], [256, 1024, 4096]
CHUNK_SIZES, HASHES = [16, 64], [1, 4]
INPUTS = [(8, 0.9), (4, 0.0), (8, 0.0), (16, 0.0)]


@pytest.fixture
def favor_table():
    sizes = [(64, length) for length in LENGTHS] + [(number, 1024) for number in FEATURES if number != 64]
    rows = [
        (estimator, features, norm, length, seed, (1 + seed) * norm / features, 0.05 * norm)
        for estimator, norm, seed, (features, length) in itertools.product(("cosh", "exp"), NORMS, (0, 1, 2), sizes)
    ]
    return pd.DataFrame(rows, columns=COLUMNS["favor_error"])


@pytest.fixture
def lsh_table():
    rows = [
        (
            norm,
            cosine,
            4096,
            1000 / norm,
            size,
            hashes,
            sorting,
            seed,
            size * hashes / (512 if sorting == "lsh" else 1024),
        )
        for (norm, cosine), size, hashes, sorting, seed in itertools.product(
            INPUTS, CHUNK_SIZES, HASHES, ("lsh", "random"), (0, 1)
        )
    ]
    return pd.DataFrame(rows, columns=COLUMNS["lsh_recall"])


def test_favor_errors_are_percent_over_features_and_over_length(favor_table):
    figure = favor_error_figure(favor_table)
    above, below = figure.axes[: len(NORMS)], figure.axes[len(NORMS) :]
    assert [axes.get_title("left") for axes in above] == ["|q| = |k| = 2", "|q| = |k| = 8"]
    assert above[0].get_ylabel() == "relative error [%]\nat 1,024 tokens"
    assert below[0].get_ylabel() == "relative error [%]\nat 64 features"
    for axes, norm in zip(above, NORMS, strict=True):
        cosh, exp, average = axes.lines
        assert (cosh.get_label(), exp.get_label()) == tuple(line["label"] for line in FAVOR_LINES.values())
        assert cosh.get_xdata().tolist() == FEATURES
        assert cosh.get_ydata() == pytest.approx([100 * 2 * norm / number for number in FEATURES])  # seeds: 1, 2, 3
        band = axes.collections[0].get_paths()[0].get_extents()
        assert band.y1 == pytest.approx(100 * 3 * norm / 16)
        assert band.y0 == pytest.approx(100 * norm / 1024)
        assert average.get_ydata() == pytest.approx([5 * norm] * len(FEATURES))
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    for axes, norm in zip(below, NORMS, strict=True):
        assert axes.lines[0].get_xdata().tolist() == LENGTHS
        assert axes.lines[0].get_ydata() == pytest.approx([100 * 2 * norm / 64] * len(LENGTHS))


def test_lsh_recall_is_percent_a_panel_an_input(lsh_table):
    figure = lsh_recall_figure(lsh_table)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    titles = [axes.get_title("left").strip() for axes in panels]
    unclustered = [f"|q| = {norm}, no clusters" for norm in (4, 8, 16)]
    assert titles == [*unclustered, "|q| = 8, clusters, cosine 0.9"]
    assert panels[0].texts[0].get_text() == "attention spread over 250 of 4,096 keys"
    for axes in panels:
        lines = {tuple(line.get_ydata()): line for line in axes.lines}
        assert set(lines) == {
            tuple(100 * size * hashes / scale for size in CHUNK_SIZES) for hashes in HASHES for scale in (512, 1024)
        }
        assert all(line.get_xdata().tolist() == CHUNK_SIZES for line in axes.lines)
        pairs = [[lines[tuple(100 * s * h / scale for s in CHUNK_SIZES)] for scale in (512, 1024)] for h in HASHES]
        for lsh, random in pairs:
            assert (lsh.get_linestyle(), random.get_linestyle()) == ("-", ":")
            assert tuple(lsh.get_color()) == tuple(random.get_color())
        assert tuple(pairs[0][0].get_color()) != tuple(pairs[1][0].get_color())
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["1 hash", "4 hashes", "tokens sorted by LSH", "tokens in random order"]


@pytest.mark.parametrize("name", ["favor", "lsh"])
def test_texts_stay_inside_and_legends_cover_nothing(name, request):
    draw = {"favor": favor_error_figure, "lsh": lsh_recall_figure}[name]
    figure = draw(request.getfixturevalue(f"{name}_table"))
    figure.draw_without_rendering()
    whole = figure.bbox.padded(1)
    boxes = [axes.get_tightbbox() for axes in figure.axes if axes.get_visible()]
    legend = figure.legends[0].get_window_extent()
    for box in (*boxes, legend):
        assert whole.contains(box.x0, box.y0)
        assert whole.contains(box.x1, box.y1)
    assert not any(legend.overlaps(box) for box in boxes)
    for one, other in itertools.combinations(boxes, 2):
        assert not one.padded(-1).overlaps(other)


@pytest.mark.parametrize("name", ["favor_error", "lsh_recall"])
def test_program(name, favor_table, lsh_table, tmp_path):
    main = runpy.run_path(str(PROGRAM))["main"]
    table = favor_table if name == "favor_error" else lsh_table
    table.to_csv(tmp_path / "table.csv", index=False)
    for folder in ("one", "two"):
        out = [str(tmp_path / folder / f"figure.{suffix}") for suffix in ("svg", "png")]
        assert run_program(main, [name, "--table", str(tmp_path / "table.csv"), "--out", *out]) == 0
    svg = tmp_path / "one/figure.svg"
    assert svg.read_bytes() == (tmp_path / "two/figure.svg").read_bytes()
    texts = {"".join(element.itertext()) for element in ElementTree.parse(svg).iter(SVG_TEXT)}
    expected = "FAVOR+, cosh estimator (the mechanism's)" if name == "favor_error" else "tokens sorted by LSH"
    assert expected in texts
    assert imread(tmp_path / "one/figure.png")[..., :3].min() < 0.2


def test_the_columns_are_those_that_are_measured():
    errors = favor_error(norms=[1], lengths=[8], features=[4], base_length=8, base_features=4, head_size=4, seeds=[0])
    assert list(errors) == COLUMNS["favor_error"]
    shares = lsh_recall(inputs=[(1, 0.0)], length=16, chunk_sizes=[4], hashes=[1], head_size=4, seeds=[0])
    assert list(shares) == COLUMNS["lsh_recall"]
