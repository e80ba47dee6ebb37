"""A short text may stand for as much as a study needs, and no more: what it stands for is counted before it is made."""

from pathlib import Path

import pytest
from small_studies import SMALL, changed

from lib.core.errors import ConfigError
from lib.core.inputs import expand_ranges
from lib.study.configuration import load_study
from lib.study.execution import OWN, ROOT

IMDB, SEARCH = "experiment/datasets/imdb", "experiment/stages/finetune"
HUB = {"repository": "owner/name", "revision": "0" * 40}
MANY = list(range(1, 1001))


def loaded(*changes):
    return load_study([("small.yaml", changed(SMALL, *changes))])


def hub(*patterns):
    return [(f"{IMDB}/source", "hub"), (f"{IMDB}/hub", {**HUB, "files": {"train": list(patterns)}})]


TOO_MANY = {
    "a range": (hub("s-{0..50000000}.parquet"), "hub.files: .*100,000"),
    "numbered labels": ([(f"{IMDB}/labels", {"prefix": "v", "count": 10**9})], "labels: .*10,000"),
    "variants": (
        [(f"{SEARCH}/variants", {f"recipe.{name}": MANY for name in ("epochs", "batch_size", "freeze_layers")})],
        "stages.finetune: variants: .*10,000",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TOO_MANY)
def test_expansion_that_is_too_large_is_refused(case):
    changes, message = TOO_MANY[case]
    with pytest.raises(ConfigError, match=message):
        loaded(*changes)


def test_expansion_of_large_studies_is_taken():
    files = loaded(*hub("{00000..09999}-of-10000.parquet")).experiment.datasets["imdb"].hub.files["train"]
    assert (len(files), files[41]) == (10_000, "00041-of-10000.parquet")
    labels = loaded((f"{IMDB}/labels", {"prefix": "v", "count": 8192})).experiment.datasets["imdb"].labels
    assert labels[8191] == "v8191"
    assert expand_ranges(["a{1..2}b{01..02}", "c"]) == ["a1b01", "a1b02", "a2b01", "a2b02", "c"]


@pytest.mark.parametrize("folder", [".", "..", "lib/x", "README.md/x", "config/../docs", "/dev/null", "results/.."])
@pytest.mark.parametrize("key", ["results", "resources"])
def test_results_lie_in_no_folder_of_the_project(folder, key, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(ConfigError, match=f"execution.{key}: "):
        loaded((f"execution/{key}", folder))


@pytest.mark.parametrize(("results", "resources"), [("a/b", "a"), ("a", "a/b"), ("a", "x/../a/")])
def test_results_and_downloads_are_apart(results, resources):
    with pytest.raises(ConfigError, match="execution.results: "):
        loaded(("execution/results", results), ("execution/resources", resources))
    for folder in ("/elsewhere", "results/mine", "mine", "results/"):
        loaded(("execution/results", folder))


def test_folders_of_the_project_are_known():
    folders = {path.name for path in Path(ROOT).iterdir() if path.is_dir()}
    tests = {path.parts[0] for path in map(Path, ("lib/core", "tests/unit", "workflow/rules", "config/x"))}
    assert tests <= OWN
    assert folders - OWN <= {"results", "resources", "site", "build"} | {
        name for name in folders if name.startswith((".", "__")) or name.endswith(".egg-info")
    }


@pytest.mark.parametrize("name", ["{stage:999999999}", "{stage.__class__}", "{stage!r}", "{0}"])
def test_name_of_a_run_evaluates_no_braces(name):
    with pytest.raises(ConfigError, match="run_name: "):
        loaded(("execution/training/run_name", name))


@pytest.mark.parametrize(
    ("labels", "message"),
    [(["a", "a\t"], "repeat 'a'"), (["é", "e\u0301"], "repeat 'é'"), (["a", "\n"], "have a blank name")],
)
def test_labels_are_seen_and_differ(labels, message):
    with pytest.raises(ConfigError, match=f"imdb.labels: labels {message}"):
        loaded((f"{IMDB}/labels", labels))
