"""One name per run, in its settings, its heartbeat and its record."""

from types import SimpleNamespace

from lib.core.attempts import Heartbeat
from lib.core.record import NamesRun, RunId, RunRecord

SETTINGS = SimpleNamespace(
    stage="search",
    model="sdpa",
    dataset="imdb",
    variant={"task.classifier_dropout": 0.2, "recipe.freeze_layers": 2},
    seed=420,
    precision="fp32",
)


def test_name_of_a_run_follows_from_its_settings():
    run = NamesRun.of(SETTINGS).id
    assert run == RunId("search", "sdpa", "imdb", 420, "freeze_layers-2+classifier_dropout-0.2")
    assert run.path == "search/sdpa/imdb/freeze_layers-2+classifier_dropout-0.2/seed-420"


def test_name_of_a_run_begins_heartbeat_and_record():
    """Their files are flat, and older ones have to be read."""
    fields = ["stage", "model", "dataset", "variant", "seed"]
    for kind in (Heartbeat, RunRecord):
        assert list(kind.model_fields)[:5] == fields
    assert list(NamesRun.of(SETTINGS).model_dump()) == fields
