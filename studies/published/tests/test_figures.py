"""Figures and summaries of the study's analyses, from tables made by hand."""

import itertools

import pandas as pd
import pytest
from drawn_analyses import FAMILIES, assert_drawn, assert_said, draw, lines, titles

from lib.analysis.settings import ANALYSES
from lib.analysis.table import read_analysis
from studies.published.analysis.relations import NAMES as RELATIONS

pytestmark = pytest.mark.extended


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


def test_curves_of_reliance():
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


def test_examples_of_reliance_for_print(tmp_path):
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


def test_heads_beside_the_offset():
    (axes,) = draw("relations", relations()).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(RELATIONS.values())
    found = {gid: points[0][0] for gid, points in lines(axes).items() if gid in FOUND}
    assert found == {gid: pytest.approx(value) for gid, value in FOUND.items()}


FRAMES = {"reliance": reliance, "relations": relations}


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
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
def test_summaries_of_analyses(kind, lines):
    assert_said(kind, FRAMES[kind](), lines)


@pytest.mark.parametrize("kind", FRAMES)
def test_figures_from_tables_alone(kind, tmp_path):
    assert_drawn(kind, FRAMES[kind](), tmp_path)
