"""The study's own configurations."""

import re

import pytest

from lib.study.configuration import SHIPPED, load_study, read_layers


@pytest.mark.parametrize("base", ["en", "uk"])
def test_a_causal_decoder_trains_the_steps_that_adaptations_train(base):
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


@pytest.mark.parametrize("study_name", ["decoders", "demo_decoders"])
def test_the_figures_of_the_thesis_on_decoders_draw_what_it_draws(repository, study_name):
    """Of LoRA, its code draws the product of the adapters' own matrices, not the change of the model's weights."""
    drawn = {
        number: (measure, weights, stage)
        for numbers, weights, stage in (
            (("4.1", "4.2"), "merged", "adaptation"),
            (("4.3", "4.4"), "adapter", "adaptation"),
            (("4.5", "4.6"), "merged", "spans"),
            (("4.7", "4.8"), "adapter", "spans"),
            (("", "4.9"), "merged", "spans"),
            (("", "4.10"), "adapter", "spans"),
        )
        for number, measure in zip(numbers, ("symmetry", "directionality"), strict=True)
        if number
    }
    page = (repository / "studies/decoders/README.md").read_text()
    named = dict(re.findall(r"\| (4\.\d+) \| `(\w+)`", page))
    assert set(named) == set(drawn)
    figures = load_study(read_layers([SHIPPED[f"{study_name}.yaml"]])).report.figures
    for number, name in named.items():
        figure = figures[name]
        stage = "spans" if figure.stage == "spans" else "adaptation"
        assert (figure.measure, figure.weights, stage) == drawn[number], (number, name)
