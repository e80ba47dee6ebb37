"""Verdicts on figures that lie on, above and below each limit, worked out by hand."""

import pytest
from run_records import scope_of, write_baseline, write_run

from lib.results.settings import TABLES

SAVINGS = {"lsh": {"time": 15, "memory": 25}, "favor": {"time": 20, "memory": 30}}


def parsed(**values):
    given = {"kind": "requirements", "stage": "finetune", "time": ["finetune"], "savings": SAVINGS}
    return TABLES.parse(given | values)


def verdicts(table):
    return table.frame.set_index("model")[["quality", "cost", "stability"]].apply(tuple, axis=1).to_dict()


@pytest.fixture
def results(tmp_path):
    """Write one run per model and seed, and return a scope of them."""

    def write(scores, costs=None, seeds=1, hardware=None):
        folders = []
        for seed in range(seeds):
            for model, score in scores.items():
                seconds, memory = (costs or {}).get(model, (100.0, 1000.0))
                values = {"test_f1_macro": score[seed] if isinstance(score, tuple) else score, "seconds": seconds}
                values |= {"peak_memory_mb": memory, "hardware": (hardware or {}).get(model, "A100")}
                folders.append(write_run(tmp_path, "finetune", model, "imdb", seed, **values))
            folders.append(write_baseline(tmp_path, "imdb", 0.80, seed))
        return scope_of(folders, {"finetune": ["imdb"]}, ["tfidf", *scores], reference="sdpa", baseline="tfidf")

    return write


@pytest.mark.parametrize(
    ("model", "seconds", "memory", "score", "expected"),
    [
        ("lsh", 85.0, 1000.0, 0.90, "met"),  # 15 % less time
        ("lsh", 86.0, 1000.0, 0.90, "not met"),
        ("lsh", 300.0, 750.0, 0.90, "met"),  # 25 % less memory is enough, whatever the time
        ("favor", 85.0, 750.0, 0.90, "not met"),  # whose margins are wider
        ("lsh", 50.0, 500.0, 0.889, "not met"),  # cheap, but 1.1 points worse
        ("gru", 50.0, 500.0, 0.90, "not asked"),
    ],
)
def test_cost_at_its_limits(results, model, seconds, memory, score, expected):
    table = parsed().make(results({"sdpa": 0.90, model: score}, costs={model: (seconds, memory)}))
    assert verdicts(table)[model][1] == expected
    assert verdicts(table)["sdpa"][1] == "not asked"


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((0.90, 0.91, 0.905), "met"),
        ((0.90, 0.911, 0.905), "not met"),
        ((0.90, 0.901), "not to be told"),  # a third seed may lie further apart
        ((0.90, 0.92), "not met"),  # whatever a third one gives
        ((0.90,), "not to be told"),
    ],
)
def test_stability_at_its_limits(results, scores, expected):
    table = parsed().make(results({"sdpa": scores}, seeds=len(scores)))
    assert verdicts(table)["sdpa"][2] == expected


def test_cost_on_other_hardware(results):
    costs = {"lsh": (10.0, 1000.0), "favor": (10.0, 100.0)}
    scope = results({"sdpa": 0.9, "lsh": 0.9, "favor": 0.9}, costs=costs, hardware={"lsh": "H200", "favor": "H200"})
    table = parsed().make(scope)
    assert (verdicts(table)["lsh"][1], verdicts(table)["favor"][1]) == ("not to be told", "met")
    assert table.frame["time"].isna().all()


def test_requirements_with_limits(results):
    scope = results({"sdpa": 0.9, "lsh": 0.895}, costs={"lsh": (50.0, 1100.0)})
    table = parsed(savings={"lsh": SAVINGS["lsh"]}).make(scope)
    assert table.to_csv() == (
        "model,dataset,score,above_baseline,above_reference,time,memory,spread,seeds,quality,cost,stability\n"
        "sdpa,imdb,90.00,+10.00,,,,,1,met,not asked,not to be told\n"
        "lsh,imdb,89.50,+9.50,-0.50,-50.0,+10.0,,1,met,met,not to be told\n"
    )
    assert table.note == (
        "Limits in points, of figures as printed. Quality: at least 5 above tfidf for sdpa, and 3 for the others, "
        "these at most 1 below sdpa. Cost: time of training (finetune) or peak memory below sdpa by at least: lsh 15 % "
        "or 25 %; at most 1 below sdpa. Stability: best and worst of at least 3 seeds at most 1 apart."
    )


@pytest.mark.parametrize("places", [3, 8])
@pytest.mark.parametrize("sign", [-1, 1])
def test_verdicts_of_printed_figures(results, places, sign):
    """Each figure is a trifle beside its limit, too little to be seen."""
    trifle = sign * 4 * 10**-places
    seeds = [0.84 + trifle / 100 + each * (1 + trifle) for each in (-0.005, 0, 0.005)]
    scores = {"sdpa": (0.85, 0.85, 0.85), "lsh": tuple(seeds)}
    time = 100 - 15 * (1 + trifle / 15)  # 15.004 %, printed as 15.0
    scope = results(scores, costs={"lsh": (time, 1000.0)}, seeds=3)
    table = parsed().make(scope)
    assert table.to_csv().splitlines()[2] == "lsh,imdb,84.00,+4.00,-1.00,-15.0,0.0,1.00,3,met,met,met"
    beyond = {"sdpa": 0.85, "lsh": 0.84 - 0.0001}
    assert verdicts(parsed().make(results(beyond)))["lsh"][0] == "not met"
