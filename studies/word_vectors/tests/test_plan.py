"""Word vectors in the plan: where they lie, what they are made from, and which runs take which."""

import pytest
from small_studies import study

from lib.core.record import RunId
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.digests import reached, roots

pytestmark = pytest.mark.extended

CHANGES = (
    ("word_vectors/film", {"source": "trained", "corpus": ["wikipedia", "imdb"], "dimension": 64}),
    ("word_vectors/file", {"source": "local", "path": "glove.txt", "format": "glove", "dimension": 64}),
    ("backbones/mean", {"kind": "word_vectors", "vectors": "film"}),
    ("backbones/given", {"kind": "word_vectors", "vectors": "file"}),
    ("backbones/lstm", {"kind": "recurrent", "hidden_size": 64}),
    ("models/mean", {"backbone": "mean", "skip": ["pretrain", "tapt"]}),
    ("models/given", {"backbone": "given", "skip": ["pretrain", "tapt"]}),
    ("models/lstm", {"backbone": "lstm", "start": {"word_vectors": "film"}}),
    ("models/plain", {"backbone": "lstm"}),
)
TABLES = [("report.yaml", {"report": {"tables": {"a": {"kind": "analogies", "word_vectors": ["file", "film"]}}}})]
PLACE = "results/word_vectors"


@pytest.fixture(scope="module")
def plan():
    return Plan(study(*CHANGES, layers=TABLES))


def run(plan, stage, model, dataset="imdb", seed=1):
    return plan.run(RunId(stage, model, dataset, seed))


def test_vectors_of_the_seed(plan):
    assert plan.word_vectors(run(plan, "finetune", "mean", seed=2)) == [f"{PLACE}/film/seed-2"]
    assert plan.word_vectors(run(plan, "finetune", "given", seed=2)) == [f"{PLACE}/file/given"]
    assert plan.word_vectors(run(plan, "finetune", "tfidf")) == []
    assert plan.start(run(plan, "pretrain", "lstm", "wikipedia", 2)) == [f"{PLACE}/film/seed-2"]
    assert plan.start(run(plan, "pretrain", "plain", "wikipedia")) == []
    assert plan.start(run(plan, "tapt", "lstm")) == [plan.paths.model(RunId("pretrain", "lstm", "wikipedia", 1))]


def test_table_of_all_seeds(plan):
    shown = plan.report.tables["a"]["scope"]
    assert plan.report.inputs(shown) == [f"{PLACE}/file/given", f"{PLACE}/film/seed-1", f"{PLACE}/film/seed-2"]
    assert shown["word_vectors"] == [("file", None), ("film", 1), ("film", 2)]


def test_counted_code_of_vectors(plan):
    def counts(stage, model, dataset):
        found = reached(*roots(plan.code(run(plan, stage, model, dataset))))
        return any(definition.startswith("studies.word_vectors.backbones.first_embeddings:") for definition in found)

    assert counts("pretrain", "lstm", "wikipedia")
    assert not counts("pretrain", "plain", "wikipedia")
    assert not counts("pretrain", "sdpa", "wikipedia")
    assert not counts("finetune", "mean", "imdb")


def test_settings_of_vectors_alone(plan):
    """They make the vectors anew, and what reads these by that."""
    changed = Plan(study(*CHANGES, ("word_vectors/film/epochs", 7)))
    for stage, model, dataset in (("finetune", "mean", "imdb"), ("pretrain", "lstm", "wikipedia")):
        assert run(plan, stage, model, dataset).settings == run(changed, stage, model, dataset).settings
