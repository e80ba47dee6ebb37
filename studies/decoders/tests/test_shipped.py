"""The study's own configurations."""

import pytest

from lib.study.configuration import SHIPPED, load_study, read_layers

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("base", ["en", "uk"])
def test_steps_of_causal_decoders(base):
    """Or a gain of adaptation could be one of steps. The base, the recipe and the texts are the same."""
    runs = {(run.id.stage, run.id.model): run for run in load_study(read_layers([SHIPPED["decoders_small.yaml"]])).runs}
    adapted, continued = (runs[f"mlm-{base}", f"{base}-{row}"] for row in ("mlm", "continued"))
    assert (adapted.work.task.kind, continued.work.task.kind) == ("masked_lm", "causal_lm")
    assert (adapted.backbone.attention, continued.backbone.attention) == ("bidirectional", "causal")
    assert continued.work.recipe == adapted.work.recipe
    assert continued.parent == adapted.parent
    found = [runs["spans", f"{base}-{row}"] for row in ("continued", "continued-opened")]
    assert [run.backbone.attention for run in found] == ["causal", "bidirectional"]
    assert {run.parent for run in found} == {continued.id}
