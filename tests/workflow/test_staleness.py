"""Which results of the full grid a change makes stale: changes that must change nothing, and those that must.

Snakemake compares a run's settings and the digest of its code with those that it ran with; both are computed here for
all runs before and after an edit of a copy of the repository, and so they are for what prepares data, and for tables
and figures. `pytest -v` prints the changes. That inputs change is a matter of `test_small_run`.
"""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from code_digests import restored
from grid_plan import compared_of_others, compared_of_runs, grid
from ready import ready

PROGRAM = Path(__file__).parents[1] / "helpers/grid_plan.py"

HARMLESS = {
    "a field's description": [("lib/study/recipe.py", "Peak learning rate.", "The highest learning rate.")],
    "the wording of an error": [
        ("lib/training/predictor.py", "torch sees no GPU", "there is no GPU"),
        ("lib/attention/contract.py", "never forms attention weights", "has no attention weights"),
    ],
    "the wording of a log message": [("lib/training/run.py", '"resuming from %s"', '"going on from %s"')],
    "a comment and a docstring": [
        ("lib/attention/lsh/mechanism.py", "import torch\n", "# a comment\nimport torch\n"),
        ("lib/training/predictor.py", "Return a tokenised split;", "Return one tokenised split;"),
    ],
    "a new exported name": [("lib/attention/__init__.py", "_EXPORTS = {", '_EXPORTS = {"Attention": "contract", ')],
    "a new function beside those that run": [
        ("lib/tokens/batches.py", "def pad_ids", "def pad_nothing() -> None:\n    return None\n\n\ndef pad_ids")
    ],
    "a new task, backbone, mechanism, kind of table and study": [
        ("lib/tasks/counting.py", None, "NUMBER = 1\n"),
        ("lib/backbones/rnn.py", None, "NUMBER = 1\n"),
        ("lib/attention/another/__init__.py", None, ""),
        ("lib/attention/another/mechanism.py", None, "NUMBER = 1\n"),
        ("lib/results/kinds/counts.py", None, "NUMBER = 1\n"),
        ("config/another.yaml", None, "experiment: {}\n"),
    ],
    "a new stage": [
        (
            "config/config.yaml",
            "  # The rows of the tables, in order.\n",
            "    probe:\n      start: tapt\n      task: {kind: masked_lm}\n      data:\n"
            "        imdb: {recipe: {epochs: 1, learning_rate: 1.0e-4, min_lr_ratio: 0.5, batch_size: 8}}\n\n"
            "  # The rows of the tables, in order.\n",
        ),
        ("config/config.yaml", "skip: [pretrain, tapt]", "skip: [pretrain, tapt, probe]"),
    ],
    "a new execution setting": [
        ("lib/study/execution.py", "    wandb_entity:", '    colour: str = "red"\n    """Any."""\n    wandb_entity:')
    ],
    "a field of the record": [
        (
            "lib/core/record.py",
            "    git_commit: str | None\n",
            "    git_commit: str | None\n    node: str | None = None\n",
        ),
        ("lib/training/record.py", "tokens=tokens,", "tokens=tokens, node=None,"),
    ],
    "a type annotation": [("lib/training/predictor.py", "folder: str, *,", "folder: Mapping | str, *,")],
    "the folder of the results": [("config/config.yaml", "results: results", "results: elsewhere")],
    "tables and figures": [
        ("lib/results/quantities.py", '"loss", "loss", 1, 3', '"loss", "loss", 1, 4'),
        ("lib/results/kinds/classes.py", "[list(columns)] *= 100", "[list(columns)] *= 101"),
        ("lib/results/kinds/pareto.py", "axes.margins(x=0.1, y=0.1)", "axes.margins(x=0.2, y=0.1)"),
        ("config/config.yaml", "columns: [f1]}", "columns: [f1, test_accuracy]}"),
        ("config/config.yaml", "  baseline: tfidf\n", ""),
        ("config/config.yaml", "  reference: sdpa\n", "  reference: favor-m64\n"),
    ],
    "what a cluster is asked for": [("lib/workflow/planning/resources.py", "SAFETY = 2", "SAFETY = 3")],
}

NUMBERS = {
    "a number in FAVOR+'s arithmetic": (
        ("lib/attention/favor/mechanism.py", "functional.elu(rows) + 1", "functional.elu(rows) + 2"),
        lambda run: "favor" in run,
    ),
    "a number in LSH's arithmetic": (
        ("lib/attention/lsh/mechanism.py", "ITSELF, ABSENT = -1e30, -2e30", "ITSELF, ABSENT = -1e29, -2e30"),
        lambda run: "lsh" in run,
    ),
    "the encoder block": (
        ("lib/backbones/encoder/model.py", "states + attended", "states - attended"),
        lambda run: "tfidf" not in run,
    ),
    "the masking rule": (
        ("lib/tokens/masking.py", "chance < self.mask_probability", "chance <= self.mask_probability"),
        lambda run: run.startswith(("pretrain", "tapt")),
    ),
    "the loss": (
        ("lib/backbones/heads/model.py", "device).clamp(min=1)", "device).clamp(min=2)"),
        lambda run: "tfidf" not in run,
    ),
    "the classification head": (
        ("lib/backbones/heads/sequence_classification.py", "nn.Tanh()", "nn.GELU()"),
        lambda run: run.startswith("finetune") and "tfidf" not in run,
    ),
    "the batches of an evaluation": (
        ("lib/tokens/stored.py", 'kind="stable"', 'kind="heapsort"'),
        lambda run: "tfidf" not in run,
    ),
    "pooling": (
        ("lib/backbones/heads/model.py", "keepdim=True).clamp(min=1)", "keepdim=True).clamp(min=2)"),
        lambda run: run.startswith("finetune") and "tfidf" not in run,
    ),
    "a metric": (
        ("lib/evaluation/metrics.py", 'average="macro", zero_division=0', 'average="macro", zero_division=1'),
        lambda run: run.startswith("finetune"),
    ),
    "the order of the data": (
        ("lib/tokens/batches.py", "batches_per_group: int = 50", "batches_per_group: int = 40"),
        lambda run: "tfidf" not in run,
    ),
    "a rule of the recipe": (
        ("lib/study/recipe.py", "self.epochs // 2", "self.epochs // 3"),
        lambda run: "tfidf" not in run,
    ),
    "the baseline's arithmetic": (
        ("lib/backbones/logistic.py", "LogisticRegression(max_iter", 'LogisticRegression(solver="saga", max_iter'),
        lambda run: "tfidf" in run,
    ),
    "one mechanism's parameter in the configuration": (
        ("config/config.yaml", "4, chunk_size: 64}", "4, chunk_size: 64, mask_within_chunks: true}"),
        lambda run: "lsh-h4-c64" in run,
    ),
    "one dataset's recipe": (
        ("config/config.yaml", "imdb: {recipe: {epochs: 15,", "imdb: {recipe: {epochs: 14,"),
        lambda run: run.startswith("tapt") and "imdb" in run,
    ),
}
DEFAULTS = {
    "the default of a setting that all runs read": (
        ("lib/study/recipe.py", "Fraction = 0.1\n", "Fraction = 0.2\n"),
        "recipe.warmup_ratio",
        lambda run: "tfidf" not in run,
    ),
    "the default of a setting of one task": (
        ("lib/tasks/masked_lm.py", "Fraction = 0.15", "Fraction = 0.2"),
        "task.mask_probability",
        lambda run: run.startswith(("pretrain", "tapt")),
    ),
    "the default of a setting of FAVOR+": (
        ("lib/attention/favor/settings.py", "SizeOrZero = 0", "SizeOrZero = 9"),
        "backbone.mechanism.redraw_interval",
        lambda run: "favor" in run,
    ),
    "the default of a setting of one mechanism": (
        ("lib/attention/lsh/settings.py", "_within_chunks: bool = False", "_within_chunks: bool = True"),
        "backbone.mechanism.mask_within_chunks",
        lambda run: "lsh" in run,
    ),
}
"""Edits of settings, which are executed, with the setting."""

CONFIG = "config/config.yaml"
NEW_MECHANISM = [
    ("    favor-m64: {kind", "    favor-m32: {kind: favor, nb_features: 32}\n"),
    ("    favor-m64: {backbone", "    favor-m32: {backbone: encoder, mechanism: favor-m32}\n"),
]
NEW_DATASET = [
    (
        "    hyperpartisan:\n      source",
        "    reviews:\n      source: hub\n      labels: [bad, good]\n      max_tokens: 512\n"
        f"      hub: {{repository: a/b, revision: '{'0' * 40}', files: {{train: [train.parquet]}}}}\n",
    ),
    ("        imdb: {recipe: {epochs: 15", "        reviews: {recipe: {epochs: 1, batch_size: 64}}\n"),
    (
        "        imdb:\n          recipe: {epochs: 8",
        "        reviews: {recipe: {epochs: 1, learning_rate: 3.0e-5, batch_size: 64}}\n",
    ),
]


def before_it(insertions):
    """Return edits of the configuration that insert text before what is there."""
    return [(CONFIG, old, f"{new}{old}") for old, new in insertions]


OF_DATA = ("prepare", "table baseline", "table token_lengths", "figure token_lengths")
OF_ONE_DATASET = ("prepare", "table baseline", "figure confusion")
OF_PRETRAINING = ("table pretrain", "table parameters", "figure loss_pretrain", "figure cost_pretrain")
# What an edit makes stale besides runs, and which runs are new.
ELSEWHERE = {
    "the preparation of a dataset": (
        [(CONFIG, "remove: '<br\\s*/?>'", "remove: '<br>'")],
        lambda name: name == "prepare imdb",
        lambda run: False,
    ),
    "the code of preparation": (
        [("lib/preparing/drawing.py", "test_size=size, stratify", "shuffle=True, test_size=size, stratify")],
        lambda name: name.startswith("prepare"),
        lambda run: False,
    ),
    "the code of a kind of table": (
        [("lib/results/kinds/classes.py", "[list(columns)] *= 100", "[list(columns)] *= 101")],
        lambda name: name.startswith("table baseline_"),
        lambda run: False,
    ),
    "the style of figures": (
        [("lib/results/style.mplstyle", "font.size: 9", "font.size: 10")],
        # The modules of these two tables also draw figures.
        lambda name: name.startswith("figure") or name in ("table token_lengths", "table pareto"),
        lambda run: False,
    ),
    "the number of workers": (
        [(CONFIG, "    workers: 2\n", "    workers: 4\n")],
        lambda name: False,
        lambda run: False,
    ),
    "a new mechanism, which is a row more": (
        before_it(NEW_MECHANISM),
        lambda name: not name.startswith(OF_DATA),
        lambda run: "favor-m32" in run,
    ),
    "a new dataset, which is a column more": (
        before_it(NEW_DATASET),
        lambda name: not name.startswith((*OF_ONE_DATASET, *OF_PRETRAINING)),
        lambda run: "reviews" in run,
    ),
    "one more seed": (
        [(CONFIG, "seeds: [420]", "seeds: [420, 421]")],
        lambda name: False,  # how they are made stays; the new runs are inputs
        lambda run: run.endswith("/421/"),
    ),
}


@contextmanager
def with_edits(project, edits):
    """Edit files of the project and add others in this block, and be in it."""
    with restored(*(project.folder / name for name, *_ in edits)):
        for name, old, new in edits:
            path = project.folder / name
            assert path.exists() == (old is not None), f"{name}: update this table"
            path.parent.mkdir(exist_ok=True)
            text = path.read_text() if old else ""
            assert (old or "") in text, f"{name} no longer holds {old!r}: update this table"
            path.write_text(text.replace(old, new) if old else new)
        with project.here():
            yield


def executed_after(project, edits):
    """Return what is compared of the runs by a process that executes the edited code."""
    with with_edits(project, edits):
        program = project.folder.joinpath("grid_plan.py")
        program.write_bytes(PROGRAM.read_bytes())
        command, environment = ready([sys.executable, str(program)], project.environment)
        done = subprocess.run(command, cwd=project.folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def differing(before, after):
    """Return what is there before and is made in another way, or no more, after."""
    return {name for name, found in before.items() if after.get(name) != found}


@pytest.fixture(scope="module")
def before(project):
    """What is compared of the runs."""
    with project.here():
        return compared_of_runs(grid())


@pytest.fixture(scope="module")
def others_before(project):
    """What is compared of the rest."""
    with project.here():
        return compared_of_others(grid())


def test_grid_has_its_runs(before):
    assert len([run for run in before if "tfidf" not in run]) == 9 + 27 + 27
    assert len(before) == 63 + 3


@pytest.fixture(scope="module")
def stale_by_harmless(project, before):
    """Stale runs by edit. All edits are tried at once, and each by itself only if something is stale then."""
    if not differing(before, executed_after(project, [each for edits in HARMLESS.values() for each in edits])):
        return {}
    return {name: differing(before, executed_after(project, edits)) for name, edits in HARMLESS.items()}


@pytest.mark.parametrize("name", HARMLESS)
def test_nothing_stale_after(stale_by_harmless, name):
    assert not stale_by_harmless.get(name)


@pytest.mark.parametrize(("change", "concerns"), NUMBERS.values(), ids=NUMBERS)
def test_runs_stale_after(project, before, change, concerns):
    with with_edits(project, [change]):
        after = compared_of_runs(grid())
    assert differing(before, after) == {run for run in before if concerns(run)}


@pytest.fixture(scope="module")
def with_other_defaults(project):
    """Settings of the runs after all defaults have changed."""
    return executed_after(project, [change for change, *_ in DEFAULTS.values()])


@pytest.mark.parametrize(("change", "setting", "concerns"), DEFAULTS.values(), ids=DEFAULTS)
def test_runs_stale_after_default(before, with_other_defaults, change, setting, concerns):
    def value(compared):
        found = json.loads(compared[0])
        for name in setting.split("."):
            found = (found or {}).get(name)
        return found

    after = with_other_defaults
    assert all(after[run][1] == code for run, (_, code) in before.items())
    assert {run for run in after if value(after[run]) != value(before[run])} == {run for run in after if concerns(run)}


@pytest.mark.extended
@pytest.mark.parametrize(("edits", "concerns", "adds"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_results_stale_after(project, before, others_before, edits, concerns, adds):
    with with_edits(project, edits):
        plan = grid()
        after, others = compared_of_runs(plan), compared_of_others(plan)
    assert differing(before, after) == set()
    assert after.keys() - before.keys() == {run for run in after if adds(run)}
    assert differing(others_before, others) == {name for name in others_before if concerns(name)}
