"""Analyses of the models that a finished workflow left."""

import itertools

import pandas as pd
import pytest

CONFIG, LOOKS = "config.test.yaml", "looks.yaml"
ANALYSES = {
    "maps": {"kind": "attention_maps", "stage": "tapt", "models": ["favor-m64", "sdpa"]},
    "heads": {"kind": "heads", "stage": "finetune", "documents": 10},
    "near": {"kind": "approximation", "stage": "finetune", "documents": 2, "length": 32},
    "far": {"kind": "gradients", "stage": "pretrain", "documents": 4, "length": 40},
    "senses": {"kind": "embeddings", "stage": "finetune", "word": "the"},
}
FILES = [("tables", suffix) for suffix in ("csv", "md", "tex", "html")]
FILES += [("figures", suffix) for suffix in ("svg", "png", "pdf")]
MODELS = ["sdpa", "lsh-h2-c64", "favor-m64"]


@pytest.fixture(scope="module")
def looked_at(finished):
    """The finished project, with analyses of its models, which are removed in the end."""
    analyses = {"attention_patterns": None, "approximation": None} | ANALYSES
    finished.configure({"extends": CONFIG, "extensions": ["studies/toy"], "report": {"analyses": analyses}}, LOOKS)
    finished.snakemake("--cores", 2, "--configfile", LOOKS)
    yield finished
    for name, (folder, suffix) in itertools.product(ANALYSES, FILES):
        (finished.results / folder / f"{name}.{suffix}").unlink()


def test_every_analysis_leaves_a_table_and_a_figure(looked_at):
    for name, (folder, suffix) in itertools.product(ANALYSES, FILES):
        assert (looked_at.results / folder / f"{name}.{suffix}").stat().st_size > 200, (name, suffix)
    models = {name: pd.read_csv(looked_at.results / f"tables/{name}.csv")["model"].unique() for name in ANALYSES}
    assert {name: list(found) for name, found in models.items()} == {
        "maps": ["favor-m64", "sdpa"],
        "heads": MODELS,
        "near": MODELS,
        "far": MODELS,
        "senses": MODELS,
    }


def test_they_stand_in_the_report_with_their_captions(looked_at):
    report = looked_at.results / "report.html"
    looked_at.snakemake("--configfile", LOOKS, "--report", report)
    text = report.read_text()
    for part in ("6. What models do", "maps.svg", "The share of a gradient that arrives from each distance"):
        assert part in text


def test_a_second_start_has_nothing_to_do(looked_at):
    assert looked_at.stale(LOOKS) == {}


def test_a_setting_concerns_its_own_analysis_alone(looked_at):
    looked_at.configure({"extends": LOOKS, "report": {"analyses": {"heads": {"documents": 9}}}}, "fewer.yaml")
    stale = looked_at.stale("fewer.yaml")
    stale.pop("total")
    assert stale == {"analysis_heads": 1, "figure_heads": 1, "all": 1}


EDITS = {
    "the thresholds of a kind": (
        "lib/analysis/heads.py", "LOCAL_DISTANCE = 0.5", ["analysis_heads", "figure_heads"],
    ),
    "what draws a kind": ("studies/toy/analysis/attention_maps.py", "TICKS = 40", ["figure_maps"]),
}  # fmt: skip


@pytest.mark.parametrize(("file", "line", "rules"), EDITS.values(), ids=EDITS)
def test_an_edit_concerns_what_it_can_change_and_never_a_run(looked_at, file, line, rules):
    path = looked_at.folder / file
    text = path.read_text()
    assert line in text
    path.write_text(text.replace(line, f"{line} + 1"))
    try:
        stale = looked_at.stale(LOOKS)
    finally:
        path.write_text(text)
    stale.pop("total")
    assert stale == dict.fromkeys([*rules, "all"], 1)
