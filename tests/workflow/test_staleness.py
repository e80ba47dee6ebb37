"""Which runs of the full grid an edit makes stale: two lists, of edits that must change nothing and of those that must.

Snakemake compares a run's settings and the digest of its code with those that it ran with; both are computed here for
all runs before and after an edit of a copy of the repository.
"""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json
from lib.core.configuration import load_study, read_layers
from lib.workflow.plan import Plan
plan = Plan(load_study(read_layers(["config/config.yaml"])))
print(json.dumps({"/".join(map(str, key)): [plan.run_settings(key), plan.run_code(key)] for key in plan.runs}))
"""
ALL = "all"

HARMLESS = {
    "a field's description": [
        ("lib/core/settings/recipe.py", "Peak learning rate.", "The highest learning rate."),
        ("lib/backbones/encoder/parameters.py", "Encoder blocks.", "Number of encoder blocks."),
    ],
    "the wording of an error": [
        ("lib/training/trainer.py", "torch sees no GPU", "there is no GPU"),
        ("lib/backbones/loading.py", "weights do not fit", "weights differ"),
        ("lib/attention/favor/mechanism.py", "so it cannot drop any", "so there are none to drop"),
        ("lib/data/padding.py", "have no token", "are without a token"),
    ],
    "the wording of a log message": [("lib/training/run.py", '"resuming from %s"', '"going on from %s"')],
    "a comment and a docstring": [
        ("lib/attention/lsh/mechanism.py", "import torch\n", "# a comment\nimport torch\n"),
        ("lib/training/scoring.py", "Return a tokenised split;", "Return one tokenised split;"),
    ],
    "a new error class": [
        (
            "lib/core/errors.py",
            "class RunError",
            'class ClusterError(ProjectError):\n    """No node."""\n\n\nclass RunError',
        )
    ],
    "a new exported name": [
        ("lib/backbones/encoder/__init__.py", "_EXPORTS = {", '_EXPORTS = {\n    "EncoderBlock": "block",'),
        ("lib/attention/__init__.py", "_EXPORTS = {", '_EXPORTS = {"Attention": "contract", '),
    ],
    "a new function beside those that run": [
        ("lib/data/padding.py", "def pad_ids", "def pad_nothing() -> None:\n    return None\n\n\ndef pad_ids")
    ],
    "a new key of another task": [
        (
            "lib/tasks/other/parameters.py",
            None,
            "from lib.core.kinds import TaskParameters\nclass Parameters(TaskParameters): x: int = 1\n",
        ),
        ("lib/tasks/other/__init__.py", None, ""),
    ],
    "a new task, backbone, mechanism, kind of table and study": [
        ("lib/tasks/counting.py", None, "NUMBER = 1\n"),
        ("lib/backbones/rnn.py", None, "NUMBER = 1\n"),
        ("lib/attention/linformer/__init__.py", None, ""),
        ("lib/attention/linformer/mechanism.py", None, "NUMBER = 1\n"),
        ("lib/results/tables/counts.py", None, "NUMBER = 1\n"),
        ("config/toy.yaml", None, "experiment: {}\n"),
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
    "a tracker's default project": [("lib/core/settings/execution.py", '"attention-grid"', '"attention-house"')],
    "a new execution setting": [
        (
            "lib/core/settings/execution.py",
            "    wandb_entity:",
            '    colour: str = Field("red", description="Any.")\n    wandb_entity:',
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
    "what trackers hear": [("lib/training/trackers.py", '"peak_memory_mb"', '"memory"')],
    "a type annotation": [("lib/training/scoring.py", "folder: str, *,", "folder: Mapping | str, *,")],
    "the folder of the results": [("config/config.yaml", "results: results", "results: elsewhere")],
    "tables and figures": [
        ("lib/results/quantities.py", '"loss", "loss", 1, 3', '"loss", "loss", 1, 4'),
        ("lib/results/tables/classes.py", "[list(columns)] *= 100", "[list(columns)] *= 101"),
        ("lib/results/figures/score_time.py", '"textsize": 7', '"textsize": 8'),
        ("config/config.yaml", "columns: [f1]}", "columns: [f1, test_accuracy]}"),
        ("config/config.yaml", "  baseline: tfidf\n", ""),
        ("config/config.yaml", "  reference: sdpa\n", "  reference: favor-m64\n"),
    ],
    "what a cluster is asked for": [("lib/workflow/resources.py", "SAFETY = 2", "SAFETY = 3")],
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
        ("lib/backbones/encoder/block.py", "states + attended", "states - attended"),
        lambda run: "tfidf" not in run,
    ),
    "the masking rule": (
        ("lib/data/masking.py", "chance < self.mask_probability", "chance <= self.mask_probability"),
        lambda run: run.startswith(("pretrain", "tapt")),
    ),
    "the loss": (
        ("lib/backbones/heads/loss.py", '.clamp(min=1)', '.clamp(min=2)'),
        lambda run: "tfidf" not in run,
    ),
    "the classification head": (
        ("lib/backbones/heads/classification_head.py", "nn.Tanh()", "nn.GELU()"),
        lambda run: run.startswith("finetune") and "tfidf" not in run,
    ),
    "the batches of an evaluation": (
        ("lib/training/scoring.py", 'kind="stable"', 'kind="heapsort"'),
        lambda run: "tfidf" not in run,
    ),
    "pooling": (
        ("lib/backbones/heads/pooling.py", "clamp(min=1)", "clamp(min=2)"),
        lambda run: run.startswith("finetune") and "tfidf" not in run,
    ),
    "a metric": (
        ("lib/evaluation/metrics.py", 'average="macro", zero_division=0', 'average="macro", zero_division=1'),
        lambda run: run.startswith("finetune"),
    ),
    "the order of the data": (
        ("lib/data/samplers.py", "batches_per_group: int = 50", "batches_per_group: int = 40"),
        lambda run: "tfidf" not in run,
    ),
    "the default of a setting that all runs read": (
        ("lib/core/settings/recipe.py", "Fraction = Field(0.1", "Fraction = Field(0.2"),
        lambda run: "tfidf" not in run,
    ),
    "the default of a setting of one task": (
        ("lib/tasks/masked_lm/parameters.py", "Fraction = Field(0.15", "Fraction = Field(0.2"),
        lambda run: run.startswith(("pretrain", "tapt")),
    ),
    "the default of a setting of one mechanism": (
        ("lib/attention/lsh/parameters.py", "_within_chunks: bool = Field(False", "_within_chunks: bool = Field(True"),
        lambda run: "lsh" in run,
    ),
    "a rule of the recipe": (
        ("lib/core/settings/recipe.py", "self.epochs // 2", "self.epochs // 3"),
        lambda run: "tfidf" not in run,
    ),
    "the baseline's arithmetic": (
        ("lib/backbones/tfidf/backbone.py", 'solver="lbfgs"', 'solver="saga"'),
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


@pytest.fixture(scope="module")
def project(copy_of_repository):
    return copy_of_repository("edited")


def runs(project):
    """Return settings and code digest of every run of the grid."""
    command = [sys.executable, "-B", "-c", PROGRAM]
    done = subprocess.run(command, cwd=project.folder, env=project.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def before(project):
    return runs(project)


@pytest.fixture
def edit(project):
    """Edit or add files for the time of a test."""
    originals = {}

    def replace(name, old, new):
        path = project.folder / name
        if old is None:
            originals[path] = None
            path.parent.mkdir(exist_ok=True)
            path.write_text(new)
            return
        originals.setdefault(path, path.read_text())
        assert old in path.read_text(), f"{name} no longer holds {old!r}: update this table"
        path.write_text(path.read_text().replace(old, new))

    yield replace
    for path, text in originals.items():
        if text is None:
            path.unlink()
        else:
            path.write_text(text)


def stale(before, after):
    return {run for run, making in before.items() if after.get(run) != making}


def test_the_grid_has_its_runs(before):
    assert len([run for run in before if "tfidf" not in run]) == 9 + 27 + 27
    assert len(before) == 63 + 3


@pytest.mark.parametrize("edits", HARMLESS.values(), ids=HARMLESS)
def test_what_cannot_change_numbers_makes_nothing_stale(project, before, edit, edits):
    for name, old, new in edits:
        edit(name, old, new)
    assert stale(before, runs(project)) == set()


@pytest.mark.parametrize(("change", "concerns"), NUMBERS.values(), ids=NUMBERS)
def test_what_changes_numbers_makes_exactly_its_runs_stale(project, before, edit, change, concerns):
    edit(*change)
    assert stale(before, runs(project)) == {run for run in before if concerns(run)}
