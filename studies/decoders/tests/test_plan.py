"""The study's parts in the plan: geometry, and a task whose head is another's."""

import json

from small_plans import key, plan
from small_studies import DELETE

from lib.workflow.staleness.digests import reached

LSTM = [("backbones/lstm", {"kind": "recurrent"}), ("models/lstm", {"backbone": "lstm"})]


def test_runs_of_a_stage_with_geometry_measure_it_where_there_are_queries_and_keys():
    changes = [("backbones/lstm", {"kind": "recurrent"}), ("models/lstm", {"backbone": "lstm"})]
    without, made = plan(*changes), plan(*changes, ("stages/finetune/geometry", {"every": 50}))
    measured, others = key("finetune", "sdpa"), [key("finetune", "lstm"), key("finetune", "tfidf"), key("tapt", "sdpa")]
    assert made.run(measured).measures
    assert json.loads(made.run(measured).settings)["geometry"] == {
        "every": 50, "positions": [0], "documents": 8, "length": 128,
    }  # fmt: skip
    assert made.code(made.run(measured)) != without.code(without.run(measured))
    for other in others:
        assert not made.run(other).measures
        assert made.run(other).settings == without.run(other).settings
        assert made.code(made.run(other)) == without.code(without.run(other))


def test_runs_that_measure_nothing_do_not_depend_on_what_measures():
    modules = ["lib.tasks.masked_lm", "lib.backbones.encoder.backbone"]
    found = {place.split(":")[0] for place in reached("scripts/train.py", *modules)}
    assert not found & {
        "studies.decoders.training.geometry",
        "studies.decoders.evaluation.attention_geometry",
        "studies.decoders.training.projections",
    }
    found = {
        place.split(":")[0] for place in reached("scripts/train.py", *modules, "studies.decoders.training.geometry")
    }
    assert found >= {
        "studies.decoders.training.geometry",
        "studies.decoders.evaluation.attention_geometry",
        "studies.decoders.training.projections",
    }


def test_a_head_that_two_tasks_share_is_in_the_code_of_both(modules_of):
    """Not every task has a head of its own name."""
    spans = [
        ("datasets/imdb/label_per", "span"),
        ("stages/finetune/data", {"imdb": {}}),
        ("stages/finetune/task", {"kind": "span_detection"}),
        ("models/tfidf", DELETE),
    ]
    found = modules_of(plan(*spans, *LSTM), key("finetune", "lstm"))
    assert {"lib.backbones.heads.token_classification", "lib.backbones.recurrent.model"} <= found
    assert not [name for name in found if name.startswith("lib.tasks.token_classification")]
