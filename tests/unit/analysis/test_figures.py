"""Figures and summaries of analyses, from tables made by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
from drawn_analyses import FAMILIES, assert_drawn, assert_said, draw, lines, titles

from lib.analysis.settings import ANALYSES


def heads():
    common = {"documents": 9, "entropy": 1.0, "distance": 2.0, "previous": 0.1, "next": 0.2, "first": 0.3}
    common |= {"itself": 0.25, "agreement": 0.2, "place": "offset -1", "layer": 0, "window": 8}
    common |= {"special": 0.5, "near": 0.3, "far": 0.2, "uniform_special": 0.1, "uniform_near": 0.4}
    return pd.DataFrame(
        [
            {"model": model, "head": head, "type": kind, "entropy_share": share, "distance_share": 0.6 + head, **common}
            for model, head, kind, share in (
                ("sdpa", 0, "positional", 0.1),
                ("sdpa", 1, "mixed", 0.2),
                ("favor-m64", 0, "global", 0.95),
            )
        ]
    )


def approximation():
    """Numbers that tell their place: layer 1 has ten times those of layer 0, head 1 twice those of head 0."""
    rows = []
    for model, when, layer in itertools.product(FAMILIES, ("before", "after"), (0, 1)):
        factor = 10**layer * (1 if when == "before" else 0.5)
        place = {"model": model, "when": when, "layer": layer, "documents": 3}
        for quantity, quantile in itertools.product(("query_norm", "key_norm"), (0.05, 0.5, 0.95)):
            norms = {"quantity": quantity, "quantile": quantile, "value": factor * (1 + quantile)}
            rows += [place | norms | {"head": head} for head in (None, 0, 1)]
        own = {"features": 64} if model == "favor-m64" else {}
        tried = [("favor_error", {"features": number}, 0.2 / number, 0.03) for number in (16, 64)]
        tried += [("lsh_recall", {"hashes": 2, "chunk_size": size}, 0.001 * size, 0.0005 * size) for size in (16, 32)]
        for (quantity, setting, value, chance), head in itertools.product(
            [*tried, ("own_error", own, 0.005, 0.03)], (0, 1)
        ):
            rows.append(
                place
                | {"head": head, "quantity": quantity, "chance": chance, "value": factor * (1 + head) * value}
                | setting
            )
    return pd.DataFrame(rows)


def prediction_cost(**price):
    machine = {"processor": "a CPU", "instruction_set": "AVX2", "measured": "2026-01-31", "documents": 150}
    costs = {"sdpa": (80.0, 12.5, 40.0), "favor-m64": (100.0, 10.0, 11.0)}
    names = ["documents_per_second", "latency_p50_ms", "latency_p99_ms"]
    return pd.DataFrame(
        [{"model": model, **machine, **dict(zip(names, costs[model], strict=True)), **price} for model in FAMILIES]
    )


def passages():
    values = itertools.product(FAMILIES, ("comprehensiveness", "sufficiency"), ("passages", "random", "difference"))
    names = ["model", "measure", "of", "value", "low", "high", "words", "documents"]
    return pd.DataFrame([(*key, n, n - 0.5, n + 1, 12.5, 200) for n, key in enumerate(values)], columns=names)


def is_of_a_head(line):
    return ", " in str(line.get_gid())


def test_heads_as_points():
    figure = draw("heads", heads())
    points = {line.get_gid(): line for line in figure.axes[0].lines if is_of_a_head(line)}
    drawn = {gid: line.get_xydata().tolist() for gid, line in points.items() if len(line.get_xydata())}
    assert drawn == {"sdpa, positional": [[0.1, 0.6]], "sdpa, other": [[0.2, 1.6]], "favor-m64, other": [[0.95, 0.6]]}
    assert points["sdpa, positional"].get_markerfacecolor() == points["sdpa, positional"].get_color()
    assert points["sdpa, other"].get_markerfacecolor() == "white"
    assert points["favor-m64, other"].get_color() != points["sdpa, other"].get_color()


def test_heads_divided_by_distance():
    figure = draw("heads", heads())
    bars = figure.axes[1]
    assert [label.get_text() for label in bars.get_yticklabels()] == [
        "sdpa, layer 0", "favor-m64, layer 0", "equal weights",
    ]  # fmt: skip
    parts = {container[0].get_gid(): container for container in bars.containers}
    assert [[bar.get_width() for bar in parts[name]] for name in ("special", "near", "far")] == [
        pytest.approx([50, 50, 10]), pytest.approx([30, 30, 40]), pytest.approx([20, 20, 50]),
    ]  # fmt: skip
    assert [bar.get_x() for bar in parts["far"]] == pytest.approx([80, 80, 50])
    assert "others within 8 tokens" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_approximation_before_and_after():
    figure = draw("approximation", approximation())
    (norms, later), (errors, better), (recall, _) = np.reshape(figure.axes, (3, 2))
    assert titles(figure) == ["drawn weights", "after training", "", "", "", ""]
    medians = [line.get_ydata().tolist() for line in norms.lines if line.get_gid() == "sdpa"]
    assert medians == [[1.5, 15]] * 2  # of queries and of keys
    assert later.lines[0].get_ydata().tolist() == [0.75, 7.5]
    ends = [path.vertices[:, 1].tolist() for path in norms.collections[0].get_paths()]
    assert ends == [pytest.approx([1.05, 1.95]), pytest.approx([10.5, 19.5])]
    # The mean over layers and heads of factors 1, 2, 10 and 20 is 8.25.
    assert lines(errors)["sdpa"].tolist() == [[16, pytest.approx(8.25 * 1.25)], [64, pytest.approx(8.25 * 0.3125)]]
    assert lines(better)["sdpa"][0, 1] == pytest.approx(8.25 * 1.25 / 2)
    assert lines(errors)["favor-m64, own"].tolist() == [[64, pytest.approx(8.25 * 0.5)]]
    assert lines(errors)["sdpa, own"].size == 0
    assert lines(recall)["sdpa"].tolist() == [
        [pytest.approx(0.8), pytest.approx(13.2)], [pytest.approx(1.6), pytest.approx(26.4)],
    ]  # fmt: skip


def test_prediction_cost_with_a_price():
    figure = draw("prediction_cost", prediction_cost())
    speeds, latencies = figure.axes
    assert [bar.get_width() for bar in speeds.patches] == [80, 100]
    assert [line.get_xdata().tolist() for line in latencies.lines] == [[12.5, 40], [10, 11]]
    summarise = ANALYSES.load("prediction_cost", "figure").summarise
    table = summarise(prediction_cost())
    assert table.note == "Measured on a CPU, one thread, 2026-01-31, on 150 documents."
    assert list(table.columns) == ["documents_per_second", "latency_p50_ms", "latency_p99_ms"]
    table = summarise(prediction_cost(price_per_hour=0.36, price_per_million=1.25, currency="EUR"))
    assert table.columns["price_per_million"].label == "a million documents [EUR]"
    assert table.note.endswith("on 150 documents; a core costs 0.36 EUR per hour.")


def test_passages_against_random_ones():
    whole, alone = draw("passages", passages()).axes
    assert [label.get_text() for label in whole.get_yticklabels()][:2] == ["sdpa, passages", "sdpa, random"]
    assert alone.collections[1].get_offsets().tolist() == [[3, 0], [4, 1], [9, 2], [10, 3]]


FRAMES = {each.__name__: each for each in (heads, approximation, prediction_cost, passages)}


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        (
            "heads",
            [
                "| sdpa      | 0       | 1 mixed; 1 positional, offset -1 |              20 |             1.00 |",
                "| favor-m64 | 0       | 1 global                         |              20 |             1.00 |",
            ],
        ),
        (
            "approximation",
            [
                "| model     | when   |   norm of queries |   norm of keys |   own error [%] |   favor-m16 error [%] |",
                "| sdpa      | before |               8.2 |            8.2 |             4.1 |                  10.3 |",
                "| favor-m64 | after  |               4.1 |            4.1 |             2.1 |                   5.2 |",
            ],
        ),
        ("passages", ["| sdpa      | sufficiency       | difference |                          5.00 |"]),
    ],
)
def test_summaries(kind, lines):
    assert_said(kind, FRAMES[kind](), lines)


@pytest.mark.extended
@pytest.mark.parametrize("kind", FRAMES)
def test_analysis_program(kind, tmp_path):
    assert_drawn(kind, FRAMES[kind](), tmp_path)
