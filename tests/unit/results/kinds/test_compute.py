import pytest
from run_records import scope_of, write_baseline, write_run

from lib.results.settings import TABLES

STAGES = {"pretrain": ["wikipedia"], "finetune": ["imdb", "arxiv"]}
GPU = {"hardware": "NVIDIA A100-SXM4-40GB", "device": "cuda:0"}


def parsed(**values):
    return TABLES.parse({"kind": "compute", "time": ["pretrain", "finetune"]} | values)


@pytest.fixture
def scope(tmp_path):
    """A hybrid that shares the pretraining of `sdpa`, and a baseline on a CPU; 2 seeds."""
    folders = []
    for seed in (1, 2):
        folders += [write_run(tmp_path, "pretrain", "sdpa", "wikipedia", seed, seconds=7200.0, **GPU)]
        folders += [
            write_run(tmp_path, "finetune", model, dataset, seed, seconds=1800.0, **GPU)
            for model in ("sdpa", "hybrid")
            for dataset in ("imdb", "arxiv")
        ]
        folders += [write_baseline(tmp_path, dataset, 0.9, seed, seconds=36.0) for dataset in ("imdb", "arxiv")]
    owners = {
        "pretrain": {"sdpa": "sdpa", "hybrid": "sdpa"},
        "finetune": {"tfidf": "tfidf", "sdpa": "sdpa", "hybrid": "hybrid"},
    }
    return scope_of(folders, STAGES, ["tfidf", "sdpa", "hybrid"], owners=owners)


def test_hours_of_shared_runs(scope):
    assert parsed().make(scope).to_csv() == (
        "model,hardware,pretrain_hours,finetune_hours,hours\n"
        "tfidf,a laptop,,0.040,0.040\n"
        "sdpa,NVIDIA A100-SXM4-40GB,4.000,2.000,6.000\n"
        "hybrid,NVIDIA A100-SXM4-40GB,4.000,2.000,6.000\n"
        "all models,NVIDIA A100-SXM4-40GB,4.000,4.000,8.000\n"
        "all models,a laptop,,0.040,0.040\n"
    )


@pytest.mark.parametrize(("device", "hours"), [("cuda:0", "4.000"), ("cpu", "1.000")])
def test_hours_of_several_processes(tmp_path, device, hours):
    run = write_run(tmp_path, "finetune", "sdpa", "imdb", seconds=3600.0, device=device, processes=4)
    table = parsed(time=["finetune"]).make(scope_of([run], {"finetune": ["imdb"]}, ["sdpa"]))
    assert table.to_csv().splitlines()[1:] == [f"{row},a laptop,{hours},{hours}" for row in ("sdpa", "all models")]


def test_rates_of_hardware(scope):
    rates = {
        "NVIDIA": {"price_per_hour": 9.0, "watts": 1.0},
        "A100": {"price_per_hour": 1.5},
        "NVIDIA A100": {"watts": 400.0, "price_per_hour": 1.25},
    }
    table = parsed(rates=rates, currency="EUR", carbon_intensity=500).make(scope)
    assert table.to_csv().splitlines()[1:3] == [
        "tfidf,a laptop,,0.040,0.040,,,",
        "sdpa,NVIDIA A100-SXM4-40GB,4.000,2.000,6.000,7.50,2.400,1.200",
    ]
    labels = [column.label for column in table.columns.values()]
    assert labels[3:] == ["price [EUR]", "energy [kWh]", "CO2 equivalent [kg]"]
    priced = parsed(rates={"laptop": {"price_per_hour": 0.5}}, currency="EUR").make(scope)
    assert list(priced.columns)[3:] == ["price"]
    assert priced.frame["price"].tolist()[0] == pytest.approx(0.02)


def test_hours_of_a_search(tmp_path):
    variants = [{"recipe.epochs": number} for number in (1, 2)]
    folders = [
        write_run(tmp_path, "search", "sdpa", "imdb", variant=variant, seconds=3600.0 * variant["recipe.epochs"])
        for variant in variants
    ]
    shown = scope_of(folders, {"search": ["imdb"]}, ["sdpa"], variants={"search": variants})
    assert parsed(time=["search"]).make(shown).to_csv().splitlines()[1] == "sdpa,a laptop,3.000,3.000"
