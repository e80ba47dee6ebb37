"""The printed values of the reproduced study."""

import pytest

from lib.results.printed_values import published


def test_printed_tables_complete():
    mechanisms, datasets, settings = 9, 3, 12
    assert published("grid").groupby("table", sort=False).size().to_dict() == {
        "4.1": (2 + datasets * 3) * 5,
        "4.5": mechanisms * 3,
        "4.6": mechanisms * datasets * 3,
        "4.10": mechanisms * datasets * 3 + datasets,
        "4.8": settings * datasets,
        "4.9": settings * datasets,
        "4.11": mechanisms * datasets,
        "4.12": (mechanisms - 1) * (1 + datasets),
        "4.13": (mechanisms - 1) * (1 + datasets),
        "4.14": (mechanisms - 1) * datasets * 2 + datasets,
        "4.15": 3 * 4,
        "B.1": 3 * 3 + 1,
        "B.2": 12 * 3 + 1,
        "B.3": 3 * 3 + 1,
        "C.1": settings * 3,
    }
    twice = published("grid").duplicated(["table", "stage", "dataset", "model", "item", "quantity"])
    assert not twice.any()
    assert published("grid").query("quantity == 'chosen'")["value"].sum() == 3


def test_printed_values_against_each_other():
    """What the study derives from its own numbers follows from the numbers here, so that a slip of typing shows."""
    facts = published("grid").set_index(["table", "quantity", "dataset", "model"])["value"].sort_index()
    f1 = facts["4.10", "f1_macro_percent"]
    for (dataset, model), delta in facts["4.14", "f1_delta_reference"].items():
        assert f1[dataset, model] - f1[dataset, "sdpa"] == pytest.approx(delta, abs=0.051)
    for (dataset, model), delta in facts["4.14", "f1_delta_baseline"].items():
        assert f1[dataset, model] - f1[dataset, "tfidf"] == pytest.approx(delta, abs=0.051)
    adapted, tuned = facts["4.6", "peak_memory_gib"], facts["4.10", "peak_memory_gib"]
    epochs = {"imdb": (15, 8), "hyperpartisan": (6, 7), "arxiv": (2, 4)}
    minutes = {
        key: epochs[key[0]][0] * facts["4.6", "minutes_per_epoch"][key] + epochs[key[0]][1] * value
        for key, value in facts["4.10", "minutes_per_epoch"].items()
    }
    for dataset, model in tuned.dropna().index:
        if model in ("sdpa", "tfidf"):
            continue
        memory = max(adapted[dataset, model], tuned[dataset, model]) / adapted[dataset, "sdpa"]
        assert 100 * (memory - 1) == pytest.approx(facts["4.12", "memory_delta_percent", dataset, model], abs=0.11)
        time = minutes[dataset, model] / minutes[dataset, "sdpa"]
        assert 100 * (time - 1) == pytest.approx(facts["4.13", "time_delta_percent", dataset, model], abs=0.8)
    spread = published("grid").query("table == 'C.1'").pivot(index="item", columns="quantity", values="value")
    highest, lowest, difference = (spread[f"validation_f1_macro_{name}"] for name in ("highest", "lowest", "spread"))
    assert (highest - lowest).tolist() == pytest.approx(difference.tolist(), abs=0.005)
