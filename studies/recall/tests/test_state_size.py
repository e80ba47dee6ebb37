"""Table and figure of scores against state sizes: numbers worked out by hand, and what the panels show."""

import pytest
from run_records import scope_of, write_group_predictions, write_run

from lib.results.kinds.stage import StageTable
from lib.results.quantities import quantity
from studies.recall.results.kinds.state_size import StateSizeFigure, StateSizeTable, of_best_variants

pytestmark = pytest.mark.extended

RATES = [{"recipe.learning_rate": 0.001}, {"recipe.learning_rate": 0.01}]
STATE = {"mqar": {"sdpa": 32768, "favor-m16": 8320, "favor-m64": 33280, "gru": 512}}
FAMILIES = {"sdpa": "sdpa", "favor-m16": "favor", "favor-m64": "favor", "gru": "gru"}
# Validation and test by model, then rate, then seed. The rate that validation chooses is not the one best on test.
SCORES = {
    "sdpa": [[(0.9, 0.7), (0.9, 0.8)], [(0.5, 1.0), (0.5, 1.0)]],
    "favor-m16": [[(0.3, 0.3), (0.3, 0.3)], [(0.6, 0.5), (0.2, 0.1)]],
    "favor-m64": [[(0.1, 0.1), (0.1, 0.1)], [(0.2, 0.4), (0.2, 0.2)]],
    "gru": [[(0.2, 0.25), (0.2, 0.25)], [(0.2, 0.9), (0.2, 0.9)]],
}


def folders(root, dataset="mqar", models=tuple(SCORES)):
    """Write the runs, with half of the documents of each group right, and of the chosen rates all of 4 pairs."""
    made = []
    for model in models:
        for rate, of_rate in zip(RATES, SCORES[model], strict=True):
            for seed, (validation, test) in enumerate(of_rate):
                values = {"variant": rate, "eval_accuracy": validation, "test_accuracy": test}
                folder = write_run(root, "recall", model, dataset, seed, **values)
                chosen = rate is RATES[model in ("favor-m16", "favor-m64")]
                documents = [(4, [1, 1], [1, 1] if chosen else [0, 0]), (8, [1, 1], [1, seed])]
                made.append(write_group_predictions(folder, documents))
    return made


def scope(root, datasets=("mqar",), **fields):
    made = [folder for dataset in datasets for folder in folders(root, dataset)]
    usual = {
        "families": FAMILIES,
        "state_bytes": {"recall": dict.fromkeys(datasets, STATE["mqar"])},
        "variants": {"recall": RATES},
        "groups": dict.fromkeys(datasets, "group"),
    }
    return scope_of(made, {"recall": list(datasets)}, list(SCORES), **{**usual, **fields})


def points(axes):
    """Return the place of each model's point in a panel."""
    return {line.get_gid(): (*line.get_xdata(), *line.get_ydata()) for line in axes.lines if line.get_gid()}


def test_row_with_state_size_and_scores(tmp_path):
    made = StateSizeTable(kind="state_size", stage="recall").make(scope(tmp_path))
    assert made.frame["model"].tolist() == list(SCORES)
    assert made.frame["state_kib"].tolist() == [32.0, 8.125, 32.5, 0.5]
    assert made.frame["learning_rate"].tolist() == ["0.001", "0.01", "0.01", "0.001"]  # of equal ones the first
    assert made.frame["validation_accuracy_percent"].tolist() == pytest.approx([90, 40, 20, 20])
    assert made.frame["accuracy_percent"].tolist() == pytest.approx([75, 30, 30, 25])
    assert made.frame["accuracy_percent_sd"].tolist() == pytest.approx([7.0711, 28.2843, 14.1421, 0], abs=1e-3)
    assert "learning_rate 0.001, 0.01 by validation accuracy" in made.note
    text = made.to_markdown()
    assert "state size [KiB]" in text
    assert "75.00 ± 7.07" in text


def test_stage_without_variants(tmp_path):
    values = {"eval_accuracy": 0.5, "test_accuracy": 0.25}
    made = [write_run(tmp_path, "recall", model, "mqar", **values) for model in ("sdpa", "gru")]
    shown = scope_of(made, {"recall": ["mqar"]}, ["sdpa", "gru"], state_bytes={"recall": STATE})
    found = StateSizeTable(kind="state_size", stage="recall").make(shown)
    assert found.frame.columns.tolist() == [
        "model", "state_kib", "validation_accuracy_percent", "accuracy_percent",
    ]  # fmt: skip
    assert "best of" not in found.note
    stage = StageTable(stage="recall", columns=["accuracy", "state_size"]).make(shown)
    assert stage.frame.rename(columns=str)["mqar_state_kib"].tolist() == [32.0, 0.5]


def test_seeds_of_the_best_variant(tmp_path):
    chosen = of_best_variants(scope(tmp_path), "recall", quantity("validation_accuracy"))
    assert chosen.groupby("row")["seed"].apply(list).to_dict() == {model: [0, 1] for model in SCORES}
    assert set(chosen.loc[chosen["row"] == "sdpa", "variant"]) == {"learning_rate-0.001"}


def test_panel_per_group(tmp_path):
    figure = StateSizeFigure(kind="state_size", stage="recall", label="pairs").draw(scope(tmp_path))
    assert [axes.get_title("left") for axes in figure.axes] == ["4 pairs", "8 pairs"]
    expected = {model: size / 1024 for model, size in STATE["mqar"].items()}
    for axes, accuracy in zip(figure.axes, (100, 75), strict=True):
        assert axes.get_xscale() == "log"
        assert axes.get_xlabel() == "state size [KiB]"
        assert points(axes) == {model: pytest.approx((size, accuracy)) for model, size in expected.items()}
    bars = [bar.get_segments()[0][:, 1].tolist() for bar in figure.axes[1].collections]
    assert bars[0] == pytest.approx([75 - 35.3553, 75 + 35.3553], abs=1e-3)


def test_families_by_size(tmp_path):
    figure = StateSizeFigure(kind="state_size", stage="recall").draw(scope(tmp_path))
    axes = figure.axes[0]
    (line,) = (each for each in axes.lines if len(each.get_xdata()) == 2 and each.get_linestyle() == "-")
    assert line.get_xdata() == pytest.approx([8.125, 32.5])
    colours = {each.get_gid(): each.get_color() for each in axes.lines if each.get_gid()}
    assert colours["favor-m16"] == colours["favor-m64"] == line.get_color()
    assert len(set(colours.values())) == 3
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(SCORES)


def test_names_of_chance(tmp_path):
    values = {"eval_accuracy": 0.5, "test_accuracy": 0.25}
    folders = [write_run(tmp_path, "recall", model, "mqar", **values) for model in ("chance", "gru")]
    for folder in folders:
        write_group_predictions(folder, [(4, [1, 1], [1, 0])])
    fields = {"state_bytes": {"recall": {"mqar": {"chance": 512, "gru": 1024}}}, "groups": {"mqar": "group"}}
    shown = scope_of(folders, {"recall": ["mqar"]}, ["chance", "gru"], **fields)
    figure = StateSizeFigure(kind="state_size", stage="recall", chance=0.1).draw(shown)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["chance", "gru", "chance level"]
