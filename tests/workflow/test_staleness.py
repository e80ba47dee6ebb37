"""Which runs of the full grid an edit makes stale: two lists, of edits that must change nothing and of those that must.

Snakemake compares a run's settings and the digest of its code with those that it ran with; both are computed here for
all runs before and after an edit of a copy of the repository. So they are for what prepares data, and for tables and
figures; that their inputs change is a matter of `test_small_run`.
"""

import json
import subprocess
import sys

import pytest
from ready import ready

PROGRAM = """
import json
from lib.study.configuration import load_study, read_layers
from lib.results.settings import FIGURES, TABLES
from lib.workflow.staleness.digests import code_digest
from lib.workflow.planning.plan import Plan
plan = Plan(load_study(read_layers(["config/config.yaml"])))
making = {"/".join(map(str, run.id)): [run.settings, plan.code(run)] for run in plan.runs}
others = {
    f"prepare {name}": [dataset.preparation.model_dump_json(), code_digest("scripts/prepare_dataset.py")]
    for name, dataset in plan.experiment.datasets.items()
}
for axis, results in (("table", plan.report.tables), ("figure", plan.report.figures)):
    for name, result in results.items():
        others[f"{axis} {name}"] = [result, plan.report.code(TABLES if axis == "table" else FIGURES, result)]
print(json.dumps([making, others]))
"""
ALL = "all"

HARMLESS = {
    "a field's description": [
        ("lib/study/recipe.py", "Peak learning rate.", "The highest learning rate."),
        ("lib/backbones/encoder/settings.py", "Encoder blocks.", "Number of encoder blocks."),
    ],
    "the wording of an error": [
        ("lib/training/predictor.py", "torch sees no GPU", "there is no GPU"),
        ("lib/backbones/stored.py", "weights do not fit", "weights differ"),
        ("lib/attention/contract.py", "never forms attention weights", "has no attention weights"),
        ("lib/tokens/batches.py", "have no token", "are without a token"),
    ],
    "the wording of a log message": [("lib/training/run.py", '"resuming from %s"', '"going on from %s"')],
    "a comment and a docstring": [
        ("lib/attention/lsh/mechanism.py", "import torch\n", "# a comment\nimport torch\n"),
        ("lib/training/predictor.py", "Return a tokenised split;", "Return one tokenised split;"),
    ],
    "a new error class": [
        (
            "lib/core/errors.py",
            "class RunError",
            'class ClusterError(ProjectError):\n    """No node."""\n\n\nclass RunError',
        )
    ],
    "a new exported name": [
        ("lib/attention/__init__.py", "_EXPORTS = {", '_EXPORTS = {"Attention": "contract", '),
    ],
    "a new function beside those that run": [
        ("lib/tokens/batches.py", "def pad_ids", "def pad_nothing() -> None:\n    return None\n\n\ndef pad_ids")
    ],
    "a new key of another task": [
        (
            "lib/tasks/other/settings.py",
            None,
            "from lib.tasks.settings import TaskSettings\nclass Settings(TaskSettings): x: int = 1\n",
        ),
        ("lib/tasks/other/__init__.py", None, ""),
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
    "a tracker's default project": [("lib/study/execution.py", '"attention-grid"', '"attention-house"')],
    "a new execution setting": [
        (
            "lib/study/execution.py",
            "    wandb_entity:",
            '    colour: str = "red"\n    """Any."""\n    wandb_entity:',
        )
    ],
    "a field of the record": [
        (
            "lib/core/record.py",
            "    git_commit: str | None\n",
            "    git_commit: str | None\n    node: str | None = None\n",
        ),
        ("lib/training/record.py", "tokens=tokens,", "tokens=tokens, node=None,"),
    ],
    "what trackers hear": [("lib/training/reporting.py", '"peak_memory_mb"', '"memory"')],
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

TRAINED = ["pretrain", "tapt", "finetune"]
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
        ("lib/training/predictor.py", 'kind="stable"', 'kind="heapsort"'),
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
    "the default of a setting that all runs read": (
        ("lib/study/recipe.py", "Fraction = 0.1\n", "Fraction = 0.2\n"),
        lambda run: "tfidf" not in run,
    ),
    "the default of a setting of one task": (
        ("lib/tasks/masked_lm.py", "Fraction = 0.15", "Fraction = 0.2"),
        lambda run: run.startswith(("pretrain", "tapt")),
    ),
    "the default of a setting of FAVOR+": (
        ("lib/attention/favor/settings.py", "SizeOrZero = 0", "SizeOrZero = 9"),
        lambda run: "favor" in run,
    ),
    "the default of a setting of one mechanism": (
        ("lib/attention/lsh/settings.py", "_within_chunks: bool = False", "_within_chunks: bool = True"),
        lambda run: "lsh" in run,
    ),
    "a rule of the recipe": (
        ("lib/study/recipe.py", "self.epochs // 2", "self.epochs // 3"),
        lambda run: "tfidf" not in run,
    ),
    "the baseline's arithmetic": (
        ("lib/backbones/logistic.py", "LogisticRegression(**each,", 'LogisticRegression(**each, solver="saga",'),
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
}  # fmt: skip


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
        [("lib/preparing/labelled.py", "random_state=", "shuffle=True, random_state=")],
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


def making(project):
    """Return settings and code digest of every run of the grid, and of what else is made."""
    program = project.folder / "making.py"
    program.write_text(PROGRAM)
    command, environment = ready([sys.executable, str(program)], project.environment)
    done = subprocess.run(command, cwd=project.folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def runs(project):
    return making(project)[0]


@pytest.fixture(scope="module")
def all_before(project):
    return making(project)


@pytest.fixture(scope="module")
def before(all_before):
    return all_before[0]


class Edits:
    """Edits and new files, to be taken back."""

    def __init__(self, project):
        self.project, self.originals = project, {}

    def __call__(self, name, old, new):
        path = self.project.folder / name
        if old is None:
            assert not path.exists(), f"{name} is no new file any more: update this table"
            self.originals[path] = None
            path.parent.mkdir(exist_ok=True)
            path.write_text(new)
            return
        self.originals.setdefault(path, path.read_text())
        assert old in path.read_text(), f"{name} no longer holds {old!r}: update this table"
        path.write_text(path.read_text().replace(old, new))

    def undo(self):
        for path, text in self.originals.items():
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self.originals.clear()


@pytest.fixture
def edit(project):
    """Edit or add files for the time of a test."""
    edits = Edits(project)
    yield edits
    edits.undo()


def stale(before, after):
    return {run for run, making in before.items() if after.get(run) != making}


def test_the_grid_has_its_runs(before):
    assert len([run for run in before if "tfidf" not in run]) == 9 + 27 + 27
    assert len(before) == 63 + 3


def test_what_cannot_change_numbers_makes_nothing_stale(project, before, edit):
    """All at once: no edit takes back what another one changes. Only if something is stale, each is tried by itself."""
    for edits in HARMLESS.values():
        for each in edits:
            edit(*each)
    together, found = stale(before, runs(project)), {}
    for name, edits in HARMLESS.items() if together else ():
        edit.undo()
        for each in edits:
            edit(*each)
        found[name] = stale(before, runs(project))
    assert not together, {name: runs for name, runs in found.items() if runs}


@pytest.mark.parametrize(("change", "concerns"), NUMBERS.values(), ids=NUMBERS)
def test_what_changes_numbers_makes_exactly_its_runs_stale(project, before, edit, change, concerns):
    edit(*change)
    assert stale(before, runs(project)) == {run for run in before if concerns(run)}


@pytest.mark.parametrize(("edits", "concerns", "adds"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_changes_no_run_makes_exactly_its_own_results_stale(project, all_before, edit, edits, concerns, adds):
    for change in edits:
        edit(*change)
    before, others_before = all_before
    after, others = making(project)
    assert stale(before, after) == set()
    assert after.keys() - before.keys() == {run for run in after if adds(run)}
    assert stale(others_before, others) == {name for name in others_before if concerns(name)}
