import numpy as np
import pandas as pd
import pytest
from run_records import scope_of, write_run
from scipy import stats

from lib.core.errors import ConfigError
from lib.core.settings import BaseSettings
from studies.scaling.results.kinds.scaling import ScalingFigure, ScalingTable, frontier, loss_at, power_law

CURVES = {"exact": ["exact-small", "exact-large"], "fast": ["fast-small"]}
ROWS = [row for rows in CURVES.values() for row in rows]
SEEDS = (1, 2, 3)


def law(seconds, exponent=0.2, factor=8.0):
    return factor * np.asarray(seconds, float) ** -exponent


def write(folder, row, seed, seconds, losses):
    run = write_run(folder, "pretrain", row, "papers", seed=seed)
    spans = np.diff([0, *seconds])
    history = {"epoch": range(1, len(spans) + 1), "seconds": spans, "train_loss": losses, "eval_loss": losses}
    pd.DataFrame(history).to_csv(run / "history.csv", index=False)
    return run


def written(folder, faster=0.0, seeds=SEEDS):
    """The small model of `exact` is on its law early, the large one late; `fast` has a law of its own."""
    folders = []
    for seed in seeds:
        shift = 1 + seed / 1000
        late = law([40, 80, 160]) * [1.2, 1, 1]
        folders.append(write(folder, "exact-small", seed, [10, 20, 40, 80], shift * law([10, 20, 40, 40])))
        folders.append(write(folder, "exact-large", seed, [40, 80, 160], shift * late))
        folders.append(
            write(folder, "fast-small", seed, [10, 40, 120], shift * law([10, 40, 120], 0.3 + faster * seed))
        )
    return folders


def settings(kind=ScalingTable, **fields):
    usual = {"kind": "scaling", "stage": "pretrain", "curves": CURVES}
    usual |= {"against": "exact"} if kind is ScalingTable else {}
    return kind(**usual | fields)


def scope(folders):
    return scope_of(folders, {"pretrain": ["papers"]}, ROWS)


def test_frontier_by_hand():
    points = pd.DataFrame({"seconds": [10, 30, 20, 20, 40], "loss": [5.0, 4.5, 4.0, 6.0, 4.0]})
    assert frontier(points)[["seconds", "loss"]].to_numpy().tolist() == [[10, 5.0], [20, 4.0]]
    assert loss_at(points, 30) == 4.0
    assert np.isnan(loss_at(points, 5))


def test_power_law_found_again():
    seconds = np.array([1.0, 10.0, 100.0])
    found = power_law(pd.DataFrame({"seconds": seconds, "loss": law(seconds, 0.17, 6.5)}))
    assert found == pytest.approx((6.5, 0.17))
    assert found.loss(seconds) == pytest.approx(law(seconds, 0.17, 6.5))
    assert power_law(pd.DataFrame({"seconds": [1, 2], "loss": [3.0, 2.0]})) is None


def test_exponents_with_intervals(tmp_path):
    table = settings().make(scope(written(tmp_path, faster=0.001)))
    exact, fast = table.frame.to_dict("records")
    assert exact["exponent"] == pytest.approx(0.2)
    exponents = [0.301, 0.302, 0.303]
    assert fast["exponent"] == pytest.approx(0.302)
    low, high = stats.t.interval(0.95, 2, 0.302, stats.sem(exponents))
    assert (fast["exponent_low"], fast["exponent_high"]) == pytest.approx((low, high))
    assert exact["seconds"] == fast["seconds"] == 120  # what all have used
    assert exact["loss"] == pytest.approx(1.002 * law(80))
    losses = [(1 + seed / 1000) * law(120, 0.3 + 0.001 * seed) for seed in SEEDS]
    assert fast["loss"] == pytest.approx(np.mean(losses))
    differences = [loss - (1 + seed / 1000) * law(80) for seed, loss in zip(SEEDS, losses, strict=True)]
    assert (fast["low"], fast["high"]) == pytest.approx(
        stats.t.interval(0.95, 2, np.mean(differences), stats.sem(differences))
    )
    assert (exact["result"], fast["result"]) == ("-", "lower")


def test_early_evaluations_left_out(tmp_path):
    table = settings(after=15.0).make(scope(written(tmp_path)))
    assert table.frame["exponent"].isna().tolist() == [False, True]  # two points are left of `fast`


def test_seeds_without_an_evaluation(tmp_path):
    folders = written(tmp_path)
    for seed in (1, 3):
        folders.append(write(tmp_path, "fast-small", seed, [300, 400, 500], law([300, 400, 500])))
    exact, fast = settings().make(scope(folders)).frame.to_dict("records")
    assert (exact["result"], fast["result"]) == ("-", "no evaluation in this time: seeds 1, 3 of fast")
    assert np.isnan([fast[name] for name in ("loss", "difference", "low", "high")]).all()
    exact, fast = settings(against="fast").make(scope(folders)).frame.to_dict("records")
    assert exact["result"] == fast["result"] == "no evaluation in this time: seeds 1, 3 of fast"


def test_curve_without_a_dataset(tmp_path):
    folders = written(tmp_path)
    owners = {"pretrain": {row: row for row in CURVES["exact"]} | {"fast-small": {"papers": "fast-small"}}}
    for seed in SEEDS:
        for row in CURVES["exact"]:
            run = write_run(tmp_path, "pretrain", row, "books", seed=seed)
            history = pd.DataFrame({"epoch": [1, 2], "seconds": [10, 10], "train_loss": 3.0, "eval_loss": [3.0, 2.5]})
            history.to_csv(run / "history.csv", index=False)
            folders.append(run)
    shown = scope_of(folders, {"pretrain": ["papers", "books"]}, ROWS, owners=owners)
    frame = settings().make(shown).frame
    assert [*zip(frame["dataset"], frame["curve"], strict=True)] == [
        ("papers", "exact"), ("papers", "fast"), ("books", "exact"),
    ]  # fmt: skip
    assert settings(against="fast").make(shown).frame["result"].tolist()[-1] == "no run of fast"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"against": "slow"}, "there is no curve 'slow'"),
        ({"curves": {"a": ["x"], "b": ["x"]}, "against": "a"}, "x is of several curves"),
    ],
)
def test_curves_refused(fields, message):
    class Holder(BaseSettings):
        table: ScalingTable

    values = {"kind": "scaling", "stage": "pretrain", "curves": CURVES, "against": "exact"} | fields
    with pytest.raises((ConfigError, ValueError), match=message):
        Holder.model_validate({"table": values})


def test_figure_of_laws(tmp_path):
    drawn = settings(ScalingFigure).draw(scope(written(tmp_path)))
    (axes,) = drawn.axes
    lines = {line.get_gid(): line for line in axes.lines}
    assert {"exact evaluations", "exact -", "exact --", "fast evaluations", "fast -", "fast --"} == set(lines)
    assert lines["exact evaluations"].get_xydata().shape == (7 * len(SEEDS), 2)
    solid, dashed = lines["exact -"].get_xydata(), lines["exact --"].get_xydata()
    assert solid[-1] == pytest.approx(dashed[0])
    assert dashed[-1, 0] == pytest.approx(1600)
    assert solid[:, 1] == pytest.approx(1.002 * law(solid[:, 0]), rel=1e-3)
    assert lines["exact --"].get_linestyle() == "--"
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["exact", "fast", "extrapolated"]
    within = settings(ScalingFigure, beyond=1.0).draw(scope(written(tmp_path)))
    assert not [line for line in within.axes[0].lines if line.is_dashed()]
    assert [text.get_text() for text in within.legends[0].get_texts()] == ["exact", "fast"]


def test_row_of_a_shared_curve(tmp_path):
    folders, names = written(tmp_path), CURVES | {"fast": ["fast-twin"]}
    both = scope_of(folders, {"pretrain": ["papers"]}, ROWS, row_of={"fast-twin": "fast-small"})
    assert settings(curves=names).make(both).frame.equals(settings().make(scope(folders)).frame)
