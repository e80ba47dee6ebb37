"""Figures and summaries of analyses, from tables made by hand."""

import itertools
import json
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from extending import extended, having
from pydantic import ValidationError

from lib.analysis.heads import GLOBAL_ENTROPY, LOCAL_DISTANCE
from lib.analysis.settings import ANALYSES
from lib.analysis.table import read_analysis
from lib.core.errors import DataError
from studies.published.analysis.relations import NAMES as RELATIONS

EXTENSIONS = having("analysis")
pytestmark = pytest.mark.extensions(*EXTENSIONS)
PROGRAM = Path(__file__).resolve().parents[3] / "scripts/analysis_figure.py"
FAMILIES = {"sdpa": "sdpa", "favor-m64": "favor"}
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


def reliance():
    """Falls of 10 points per step, and two documents whose words need to be escaped."""
    rows = []
    for model in FAMILIES:
        whole = {"model": model, "part": "curve", "measure": "none", "documents": 9}
        for quantity, value in (("accuracy", 0.75), ("f1", 0.8), ("probability", 0.9)):
            rows.append(whole | {"quantity": quantity, "value": value, "low": value - 0.1, "high": value + 0.05})
        for measure, change in itertools.product(("gradient", "tfidf", "random"), ("removed", "kept")):
            key = {"model": model, "part": "curve", "measure": measure, "change": change, "documents": 9}
            for place, amount in enumerate((0.1, 0.5, 3.0, None)):
                quantities = {"f1": 0.7 - 0.1 * place, "probability": 0.6 - 0.1 * place} if amount else {}
                quantities |= {"fall": 0.25} | ({"fall_minus_random": 0.125} if measure != "random" else {})
                if measure == "gradient":
                    quantities |= {"fall_minus_tfidf": -0.06}
                    quantities |= {"shared_with_tfidf": 0.3} if amount and change == "removed" else {}
                for quantity, value in quantities.items():
                    ends = {"value": value, "low": value - 0.05, "high": value + 0.05}
                    rows.append(key | {"amount": amount, "quantity": quantity} | ends)
        for document, (place, word) in itertools.product(("d1", "<d2>"), enumerate(["null", "<b>", "fine", "."])):
            about = {"model": model, "part": "word", "document": document, "label": "bad", "prediction": "good"}
            strength = [2.0, -1.0, 0.1, None][place]
            about |= {"probability": 0.9, "measure": "gradient", "place": place, "word": word, "value": strength}
            rows.append(about)
    return pd.DataFrame(rows)


def relations():
    """One head that finds the nouns after training alone."""
    rows = []
    for model, when, relation in itertools.product(FAMILIES, ("before", "after"), RELATIONS):
        found = 0.9 if when == "after" and relation == "determiner" else 0.4
        common = {"model": model, "when": when, "relation": relation, "pairs": 50, "choosing": 0.5}
        for by, number, accuracy in (("head", 0, 0.2), ("head", 1, found), ("offset", 1, 0.5), ("offset", -1, 0.1)):
            own = {"direction": "attends", "layer": 2, "head": number} if by == "head" else {"offset": number}
            own |= {"by": by, "accuracy": accuracy, "low": accuracy - 0.1, "high": accuracy + 0.05}
            own["chosen"] = accuracy in (found, 0.5)
            if accuracy == found:
                own |= {"difference": found - 0.5, "difference_low": found - 0.6, "difference_high": found - 0.4}
                own["p"] = 0.0001 if found > 0.5 else 0.25
            rows.append(common | own)
    return pd.DataFrame(rows)


def prediction_cost(**price):
    machine = {"processor": "a CPU", "instruction_set": "AVX2", "measured": "2026-01-31", "documents": 150}
    costs = {"sdpa": (80.0, 12.5, 40.0), "favor-m64": (100.0, 10.0, 11.0)}
    names = ["documents_per_second", "latency_p50_ms", "latency_p99_ms"]
    return pd.DataFrame(
        [{"model": model, **machine, **dict(zip(names, costs[model], strict=True)), **price} for model in FAMILIES]
    )


FRAMES = {
    "attention_maps": maps, "heads": heads, "approximation": approximation, "gradients": gradients,
    "embeddings": embeddings, "reliance": reliance, "relations": relations,
    "prediction_cost": prediction_cost,
}  # fmt: skip


def draw(kind, frame, families=FAMILIES):
    return ANALYSES.load(kind, "figure").draw(frame, families)


def titles(figure):
    return [axes.get_title("left") for axes in figure.axes if axes.axison]


def test_every_kind_of_analysis_is_drawn():
    assert set(ANALYSES.kinds()) == set(FRAMES)


GIVEN = {"embeddings": {"word": "bank"}}
"""Settings of a kind that have no default."""
with extended(*EXTENSIONS):
    LISTS = [
        (kind, name)
        for kind in ANALYSES.kinds()
        for name, field in ANALYSES.settings(kind).model_fields.items()
        if "list" in str(field.annotation)
    ]


@pytest.mark.parametrize(("kind", "name"), LISTS)
def test_no_list_of_an_analysis_has_a_value_twice(kind, name):
    values = {"kind": kind, "stage": "finetune"} | GIVEN.get(kind, {})
    given = getattr(ANALYSES.parse(values), name) or ["sdpa", "tfidf"]
    assert getattr(ANALYSES.parse(values | {name: given}), name) == given
    for repeated in ([*given, given[0]], [given[-1], *given], [given[0]] * 2):
        with pytest.raises(ValidationError) as error:
            ANALYSES.parse(values | {name: repeated})
        twice = next(value for value in given if repeated.count(value) > 1)
        assert f"{name} = {repeated} names {twice} twice. Name each once" in str(error.value)


def test_the_lists_of_analyses_are_found():
    assert {("reliance", "amounts"), ("reliance", "measures"), ("approximation", "hashes")} < set(LISTS)
    assert {(kind, "models") for kind in ANALYSES.kinds()} < set(LISTS)


def test_one_map_per_model_stands_above_the_other_of_its_model():
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


def test_models_of_several_layers_have_rows_of_their_own():
    frame = pd.concat([maps(layers=2, models=["sdpa"]), maps(models=["favor-m64"])])
    *grid, _ = draw("attention_maps", frame).axes
    shown = [axes.get_title("left") if axes.axison else None for axes in grid]
    assert shown == [
        "sdpa\nlayer 0, head 0", "sdpa\nlayer 1, head 0", "", "", "favor-m64\nlayer 0, head 0", None, "", None,
    ]  # fmt: skip
    assert [np.array_equal(axes.images[0].get_array(), AFTER) for axes in grid if axes.axison] == [
        False, False, True, True, False, True,
    ]  # fmt: skip


def test_faint_maps_share_a_scale_up_to_their_greatest_weight():
    frame = maps()
    *grid, _ = draw("attention_maps", frame.assign(weight=frame["weight"] / 4)).axes
    assert {axes.images[0].get_clim() for axes in grid} == {(0, 0.25)}


def test_long_documents_name_some_of_their_tokens():
    places = range(100)
    rows = [(query, key, f"t{query}", float(query == key)) for query, key in itertools.product(places, repeat=2)]
    frame = pd.DataFrame(rows, columns=["query", "key", "query_token", "weight"])
    frame = pd.concat(frame.assign(model="sdpa", when=when, layer=0, head=0) for when in ("before", "after"))
    axes = draw("attention_maps", frame, {"sdpa": "sdpa"}).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"t{place}" for place in range(0, 100, 3)]


def is_of_a_head(line):
    return ", " in str(line.get_gid())


def test_heads_are_points_and_positional_ones_filled():
    figure = draw("heads", heads())
    points = {line.get_gid(): line for line in figure.axes[0].lines if is_of_a_head(line)}
    drawn = {gid: line.get_xydata().tolist() for gid, line in points.items() if len(line.get_xydata())}
    assert drawn == {
        "sdpa, positional": [[0.1, 0.6]],
        "sdpa, other": [[0.2, 1.6]],
        "favor-m64, other": [[0.95, 0.6]],
    }
    assert points["sdpa, positional"].get_markerfacecolor() == points["sdpa, positional"].get_color()
    assert points["sdpa, other"].get_markerfacecolor() == "white"
    assert points["favor-m64, other"].get_color() != points["sdpa, other"].get_color()


def test_what_heads_look_at_is_divided_by_layer_and_compared_with_equal_weights():
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


def lines(axes):
    return {line.get_gid(): line.get_xydata() for line in axes.lines}


def test_norms_errors_and_recall_stand_before_and_after_training():
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


def test_the_boundaries_drawn_are_those_that_name_the_heads():
    upright, level = [line.get_xydata() for line in draw("heads", heads()).axes[0].lines if not is_of_a_head(line)]
    assert upright[:, 0].tolist() == [GLOBAL_ENTROPY] * 2
    assert level.tolist() == [[0, LOCAL_DISTANCE], [GLOBAL_ENTROPY, LOCAL_DISTANCE]]


def test_gradients_are_lines_from_distance_1_on():
    figure = draw("gradients", gradients())
    assert titles(figure) == ["drawn weights", "after training"]
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        lines = {line.get_gid(): line.get_xydata().tolist() for line in axes.lines}
        assert list(lines) == list(FAMILIES)
        assert all(line == [[distance, 0.5**distance] for distance in (1, 2, 5, 7)] for line in lines.values())
        assert axes.get_ylim()[0] < 0.5**7


def test_a_gradient_that_vanishes_leaves_the_others_their_scale():
    axes = draw("gradients", gradients(factor=1e-8)).axes[0]
    assert axes.get_ylim() == (1e-12, 1)
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1e-8, 1e-12, 1e-12, 1e-12]] * 2


def test_gradients_that_stay_are_not_magnified():
    assert draw("gradients", gradients(factor=0.99)).axes[0].get_ylim()[0] == 0.1


def test_a_word_of_two_tokens_has_two_static_places():
    frame = embeddings()
    frame.loc[(frame["representation"] == "static") & frame["document"].isin(["d0", "d1", "d2"]), "x"] = 2
    static, *_ = draw("embeddings", frame).axes
    assert {tuple(line.get_xydata()[0]) for line in static.lines if line.get_gid() == "static"} == {(0, 0), (2, 0)}
    assert [text.get_text() for text in static.texts] == ["7 documents", "3 documents"]


def test_a_word_has_one_static_place_and_a_contextual_one_per_document():
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
        (
            "reliance",
            [
                "| sdpa      | whole document       |           75.0 |     80.0 |",
                "12.5 [7.5, 17.5] | -6.0 [-11.0, -1.0] | 25.0 [20.0, 30.0] | 70 60 50     |",
                "F1 and words shared with TF-IDF in % at 10 %, 50 %, 3 words.",
            ],
        ),
        (
            "relations",
            [
                "| sdpa      | after  | determiner to noun    | 2-1           |           90.0 | 80.0 to 95.0      |",
                "|                 +40.0 | 30.0 to 50.0                 | < 0.001    |      50 |",
                f"p (Holm): of no difference, corrected for the {len(RELATIONS)} relations of a model",
            ],
        ),
    ],
)
def test_summaries(kind, lines):
    text = ANALYSES.load(kind, "figure").summarise(FRAMES[kind]()).to_markdown()
    assert [line for line in lines if line not in text] == [], text
    models = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith(("| sdpa", "| favor"))]
    assert models == sorted(models, reverse=True), "models keep their order"


@pytest.mark.parametrize("kind", FRAMES)
def test_the_program_draws_from_the_table_alone(kind, tmp_path):
    FRAMES[kind]().to_csv(tmp_path / "table.csv", index=False)
    analysis = json.dumps({"kind": kind, "families": list(FAMILIES.items())})
    summaries = [str(tmp_path / f"table.{suffix}") for suffix in ("md", "tex")]
    arguments = ["--analysis", analysis, "--table", str(tmp_path / "table.csv"), "--summary", *summaries]
    main = runpy.run_path(str(PROGRAM))["main"]
    for name in ("one", "two"):
        main([*arguments, "--out", *(str(tmp_path / f"{name}.{suffix}") for suffix in ("svg", "png", "pdf"))])
    for suffix in ("svg", "pdf"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()
    assert (tmp_path / "one.png").stat().st_size > 5_000
    assert (tmp_path / "table.md").read_text().startswith("| model")
    assert "\nsdpa & " in (tmp_path / "table.tex").read_text()
    if kind == "attention_maps":
        assert "null" in (tmp_path / "one.svg").read_text(), "a word that pandas takes for a missing value"


def test_words_that_look_like_numbers_or_nothing_stay_words(tmp_path):
    frame = maps().replace({"query_token": {"b": "007"}, "key_token": {"a": "nan", "b": "1e3", "null": "True"}})
    frame.to_csv(tmp_path / "maps.csv", index=False)
    read = read_analysis(tmp_path / "maps.csv")
    assert read["query_token"].unique().tolist() == ["null", "007", "a"]
    assert read["key_token"].unique().tolist() == ["True", "1e3", "nan"]
    assert read["weight"].tolist() == frame["weight"].tolist()


def test_models_whose_names_look_like_numbers_are_drawn(tmp_path):
    families = {"007": "sdpa", "1e3": "favor"}
    maps(models=families).to_csv(tmp_path / "maps.csv", index=False)
    read = read_analysis(tmp_path / "maps.csv")
    kind = ANALYSES.load("attention_maps", "figure")
    assert [title.split()[0] for title in titles(kind.draw(read, families)) if title] == list(families)
    assert kind.summarise(read).frame["model"].unique().tolist() == list(families)


def test_curves_of_each_measure_stand_beside_the_whole_document():
    figure = draw("reliance", reliance())
    assert len(figure.axes) == 2 * 4
    assert titles(figure)[:2] == ["strongest words removed", "strongest words alone"]
    assert figure.axes[-1].get_xlabel() == "words"
    removed = lines(figure.axes[0])
    assert removed["whole document"][:, 1] == pytest.approx(80)
    assert removed["gradient"][:, 1] == pytest.approx([70, 60, 50])
    assert [label.get_text() for label in figure.axes[4].get_xticklabels()] == ["10 %", "50 %", "3"]
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "gradient times input", "weights of TF-IDF", "random order",
    }  # fmt: skip


def test_examples_are_escaped_shaded_and_underlined_for_print(tmp_path):
    reliance().to_csv(tmp_path / "table.csv", index=False)
    table = ANALYSES.load("reliance", "figure").summarise(read_analysis(tmp_path / "table.csv"))
    table.write([tmp_path / "table.html", tmp_path / "table.md"])
    page = (tmp_path / "table.html").read_text()
    assert "<b>" not in page.split("Examples")[1]
    assert "&lt;b&gt;" in page
    assert "&lt;d2&gt;, labelled bad" in page
    assert "<span class='for strong' style='background: rgba(0, 114, 178, 0.45)' title='+2.00'>null</span>" in page
    assert "<span class='against' style='background: rgba(230, 159, 0, 0.23)'" in page or (
        "<span class='against' style='background: rgba(230, 159, 0, 0.22)'" in page
    )
    assert " ." in page
    assert "print-color-adjust: exact" in page
    assert "span" not in (tmp_path / "table.md").read_text()


FOUND = {"determiner, offset": 50, "determiner, sdpa, before": 40, "determiner, favor-m64, after": 90}


def test_chosen_heads_stand_beside_the_chosen_offset():
    (axes,) = draw("relations", relations()).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(RELATIONS.values())
    found = {gid: points[0][0] for gid, points in lines(axes).items() if gid in FOUND}
    assert found == {gid: pytest.approx(value) for gid, value in FOUND.items()}


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"gone.csv"):
        read_analysis(tmp_path / "gone.csv")


def test_the_cost_of_predictions_is_drawn_and_names_its_machine_and_a_price_that_was_given():
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


@pytest.mark.parametrize("given", [{"price_per_hour": 1}, {"currency": "EUR"}])
def test_a_price_without_a_currency_is_refused(given):
    (missing,) = {"price_per_hour", "currency"} - set(given)
    with pytest.raises(ValidationError, match=f"{missing}: missing"):
        ANALYSES.parse({"kind": "prediction_cost", "stage": "finetune"} | given)
