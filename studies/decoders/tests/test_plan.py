"""The study's parts in the plan: geometry, and a task whose head is another's."""

import json

import pytest
from small_plans import key, plan

from lib.workflow.staleness.digests import reached

pytestmark = pytest.mark.extended


def test_runs_that_measure_geometry():
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


def test_code_of_runs_that_measure_nothing():
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
