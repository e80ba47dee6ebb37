"""The grid in miniature, through every kind of rule: its tables, figures, analyses and report."""

import itertools

import pandas as pd
import pytest
from code_digests import restored
from small_studies import MINIATURE

pytestmark = pytest.mark.extended

MODELS = ["sdpa", "lsh-h2-c64", "favor-m64"]
ANALYSES = {
    "maps": {"kind": "attention_maps", "stage": "tapt", "models": ["favor-m64", "sdpa"]},
    "heads": {"kind": "heads", "stage": "finetune", "documents": 10},
    "near": {"kind": "approximation", "stage": "finetune", "documents": 2, "length": 32},
    "far": {"kind": "gradients", "stage": "pretrain", "documents": 4, "length": 40},
    "senses": {"kind": "embeddings", "stage": "finetune", "word": "the"},
}
FILES = [("tables", suffix) for suffix in ("csv", "md", "tex", "html")]
FILES += [("figures", suffix) for suffix in ("svg", "png", "pdf")]
LOOKS = "looks.yaml"


@pytest.fixture(scope="module")
def grid(copy_of_repository):
    """A project whose grid has run to its end, with analyses of its models."""
    project = copy_of_repository("grid")
    report = MINIATURE["report"] | {"analyses": ANALYSES}
    project.configure(MINIATURE | {"extensions": ["studies/toy"], "report": report}, LOOKS)
    project.snakemake("--cores", 2, "--configfile", LOOKS)
    return project


def test_tables_have_no_hole(grid):
    tables = grid.results / "tables"
    names = {path.stem for path in tables.glob("*.csv")} - set(ANALYSES)
    whole = {"token_lengths", "pretrain", "tapt", "finetune", "f1", "baseline_imdb", "f1_classes_imdb", "parameters"}
    # Where nothing can stand by its nature: no spread of one seed, no difference of the reference from itself.
    assert names - whole == {
        "abstention", "answer", "approximation", "attention_patterns", "compute", "errors", "f1_delta", "memory_delta",
        "pareto", "requirements", "significance", "time_delta",
    }  # fmt: skip
    for name in whole:
        frame = pd.read_csv(tables / f"{name}.csv")
        if name == "finetune":  # the baseline has no epochs
            assert frame.loc[frame["model"] == "tfidf", "imdb_minutes_per_epoch"].isna().all()
            frame = frame[frame["model"] != "tfidf"]
        assert frame.notna().all(axis=None), name
    assert pd.read_csv(tables / "f1.csv")["model"].tolist() == ["tfidf", *MODELS]
    assert "Nothing to be done" in grid.snakemake("--cores", 1, "--configfile", LOOKS).stdout


def test_analyses_leave_tables_and_figures(grid):
    for name, (folder, suffix) in itertools.product(ANALYSES, FILES):
        assert (grid.results / folder / f"{name}.{suffix}").stat().st_size > 200, (name, suffix)
    models = {name: list(pd.read_csv(grid.results / f"tables/{name}.csv")["model"].unique()) for name in ANALYSES}
    assert models == dict.fromkeys(ANALYSES, MODELS) | {"maps": ["favor-m64", "sdpa"]}


def test_report_shows_results_with_captions(grid):
    report = grid.results / "report.html"
    grid.snakemake("--configfile", LOOKS, "--report", report)
    text = report.read_text()
    for part in ("f1_time", "Reformer", "6. What models do", "maps.svg", "The share of a gradient that arrives from"):
        assert part in text


def test_stale_after_setting_of_analysis(grid):
    grid.configure({"extends": LOOKS, "report": {"analyses": {"heads": {"documents": 9}}}}, "fewer.yaml")
    assert grid.stale("fewer.yaml") == {"analysis_heads": 1, "figure_heads": 1, "all": 1, "total": 3}


HEADS = ["analysis_attention_patterns", "figure_attention_patterns", "analysis_heads", "figure_heads"]
"""Of the two analyses of this kind."""
EDITS = {
    "the thresholds of a kind": ("lib/analysis/heads.py", "LOCAL_DISTANCE = 0.5", HEADS),
    "what draws a kind": ("studies/toy/analysis/attention_maps.py", "TICKS = 40", ["figure_maps"]),
}


def test_stale_after_edit_of_analysis(grid):
    for file, line, rules in EDITS.values():
        path = grid.folder / file
        with restored(path):
            text = path.read_text()
            assert line in text
            path.write_text(text.replace(line, f"{line} + 1"))
            assert grid.stale(LOOKS) == dict.fromkeys([*rules, "all"], 1) | {"total": len(rules) + 1}
