"""What a study asks for before anything ran, from the plan of Snakemake itself."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import yaml
from small_studies import DELETE, RECIPE, SMALL, changed

from lib.study.configuration import SHIPPED, load_study, read_layers
from lib.workflow.commands.needs import storage_lines
from lib.workflow.planning.plan import Plan

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/tools/status.py"


def ask(folder, monkeypatch, capsys, gpu, *changes):
    """Return the rows and the whole answer of `make status` about a small study."""
    own = changed(
        SMALL, ("execution/results", str(folder / "results")), ("execution/resources", str(folder / "down")), *changes
    )
    own["execution"]["job"] = {"gpu": gpu, "cpus_per_task": 4, "mem_mb": 8_000}
    own["report"] = {"tables": {"f1": {"stage": "finetune", "columns": ["f1"]}}}
    (folder / "small.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
    monkeypatch.chdir(folder)
    assert runpy.run_path(str(PROGRAM))["main"](["--configfile", "small.yaml"]) == 0
    said = capsys.readouterr().out
    return {line.split()[0]: line.split()[1:] for line in said.splitlines() if line[:1].isalpha()}, said


def storage(said):
    """Return the table of downloads and disk: number and GB of what has a row."""
    lines = said.partition("downloads and disk")[2].partition("\n\n")[0].splitlines()[1:]
    return {line[:24].strip(): [line[24:39].strip(), line[39:54].strip()] for line in lines}


@pytest.mark.parametrize("gpu", [0, 1])
def test_a_study_says_what_it_asks_for_before_anything_ran(tmp_path, monkeypatch, capsys, gpu):
    rows, said = ask(tmp_path, monkeypatch, capsys, gpu)
    assert re.search(r"nothing has run yet\. 34 runs in \d+ jobs\.\nHours and memory are limits .* of a cluster", said)
    assert [rows[stage][0] for stage in ("pretrain", "tapt", "finetune")] == ["6", "12", "16"]
    if gpu:
        hours = 6 * 15 / 60
        assert rows["pretrain"][1:3] == [f"{hours:.1f}", f"{4 * hours:.1f}"]
        assert "Unknown (?): 4 runs on a CPU" in said
    else:
        assert rows["pretrain"][1:4] == ["0", "unknown", "unknown"]
        assert "Unknown (?): 34 runs on a CPU" in said
    assert rows["pretrain"][-2:] == ["8", "GB"]
    models, size = storage(said)["models of the runs"]
    assert (models, size[-4:]) == ("34", " + ?"), "the baselines' sizes are unknown"
    assert not (tmp_path / "results").exists(), "nothing is made"


SEARCH = {
    "start": "pretrain",
    "models": ["sdpa"],
    "variants": {"recipe.learning_rate": [0.1, 0.2]},
    "task": {"kind": "sequence_classification"},
    "recipe": RECIPE,
    "seeds": [2],
    "data": {"imdb": {}},
}
COPY = {
    "start": "pretrain",
    "models": ["swapped"],
    "task": {"kind": "imitation", "teacher": "favor-m64"},
    "recipe": RECIPE,
    "data": {"wikipedia": {}},
}
SWAPPED = {
    "backbone": "encoder",
    "mechanism": "sdpa",
    "skip": ["search", "tapt", "finetune"],
    "changes": {"copy": {"mechanism": "favor-m64"}},
}


@pytest.mark.parametrize(
    ("only", "number"),
    [
        ({"stages": ["pretrain"], "models": ["sdpa"]}, 2),
        ({"stages": ["tapt"], "models": ["lsh-h2-c64"], "seeds": [1]}, 2),
        # All take settings from the search of one model, whose two runs start from the weights of their own seed.
        ({"stages": ["finetune"], "models": ["lsh-h2-c64"], "datasets": ["imdb"], "seeds": [1]}, 3 + 2 + 1),
        # Its own first weights, and those of the model that it imitates.
        ({"stages": ["copy"], "seeds": [2]}, 1 + 2),
    ],
)
def test_a_part_of_a_study_asks_for_what_it_needs(only, number, tmp_path, monkeypatch, capsys):
    stages = SMALL["experiment"]["stages"] | {"search": SEARCH, "copy": COPY}
    own = stages["finetune"] | {"data": {"imdb": {}}, "settings_from": "search"}
    changes = (
        ("experiment/stages", {**stages, "finetune": own, "tapt": stages["tapt"] | {"data": {"imdb": {}}}}),
        ("experiment/datasets/arxiv", DELETE),
        ("experiment/models/swapped", SWAPPED),
        ("only", only),
    )
    _, said = ask(tmp_path, monkeypatch, capsys, 0, *changes)
    assert f"nothing has run yet. {number} runs in " in said
    plan = Plan(load_study(read_layers(["small.yaml"])))
    assert len(plan.needed()) == number
    assert storage(said)["models of the runs"][0] == str(number)


class Rule(NamedTuple):
    name: str


class Job(NamedTuple):
    """What is read of a job of Snakemake's plan."""

    rule: Rule
    wildcards: SimpleNamespace


def jobs_of(runs):
    """Return the jobs that make runs."""
    places = [run.id.path.rpartition("/seed-") for run in runs]
    return [Job(Rule("run"), SimpleNamespace(place=place, seed=seed)) for place, _, seed in places]


def test_downloads_and_models_have_sizes_as_far_as_the_configuration_gives_them():
    plan = Plan(load_study(read_layers([SHIPPED["published.yaml"]])))
    repositories = dict.fromkeys(run.start.repository for run in plan.runs if run.start)
    jobs = [Job(Rule("download_model"), SimpleNamespace(repository=name)) for name in [*repositories, "no/one"]]
    addresses = plan.corpora.remote_files
    jobs += [Job(Rule("download_url"), SimpleNamespace(address=address)) for address in addresses]
    jobs += [Job(Rule("download_hub"), SimpleNamespace(repository="stanfordnlp/imdb")), *jobs_of(plan.runs)]
    found = storage("\n".join(storage_lines(plan, jobs)))
    sizes = [file.size for dataset in plan.corpora.names for file in plan.corpora.corpus(dataset).remote_files]
    assert found["files behind URLs"] == [str(len(addresses)), f"{sum(filter(None, sizes)) / 1e9:.2f} + ?"]
    number, gigabytes = found["published models"]
    assert (int(number), gigabytes[-4:]) == (len(repositories) + 1, " + ?")
    # As their papers say: 29 M, 110 M, 125 M, 149 M (Longformer), 127 M (BigBird), 149 M (ModernBERT).
    assert float(gigabytes[:-4]) == pytest.approx(4e-3 * (29 + 110 + 125 + 149 + 127 + 149), rel=0.03)
    assert found["files of data sets"] == ["1", "unknown"]
    assert float(found["a checkpoint, at most"][1]) == pytest.approx(12e-3 * 149, rel=0.03)


def test_runs_keep_what_their_recipe_keeps():
    def gigabytes(*changes):
        plan = Plan(load_study([("small.yaml", changed(SMALL, *changes))]))
        number, gb = storage("\n".join(storage_lines(plan, jobs_of(plan.runs))))["models of the runs"]
        return number, float(gb.removesuffix(" + ?"))

    encoder = {"kind": "encoder", "hidden_size": 512, "num_hidden_layers": 4, "intermediate_size": 2048}
    large = ("experiment/backbones/encoder", encoder | {"num_attention_heads": 8})
    usual = gigabytes(large)
    both = gigabytes(large, ("experiment/stages/finetune/recipe/keep", ["best", "last", "state"]))
    assert usual[0] == both[0] == "34"
    one = usual[1] / 30  # the other four are baselines
    assert one == pytest.approx(4e-3 * 12.6, rel=0.05)  # four layers; the vocabulary is small
    assert both[1] == pytest.approx(usual[1] + 12 * 4 * one, rel=0.05)  # 12 runs of the last stage
