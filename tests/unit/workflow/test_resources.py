import json

import pytest
from lib.core.settings.training import Optimisation

from lib.backbones.encoder.parameters import Parameters as Encoder
from lib.core.kinds import MECHANISMS
from lib.workflow.resources import START_UP_MINUTES, training_minutes

RECIPE = Optimisation(epochs=2, learning_rate=1e-4, min_lr_ratio=0.5, batch_size=2)


def minutes(tmp_path, kind=None, documents=26_710, mean=12_000, max_tokens=16_384, recipe=RECIPE):
    path = tmp_path / "token_lengths.json"
    path.write_text(json.dumps({"train": {"documents": documents, "mean": mean}}))
    return training_minutes(
        encoder=Encoder(),
        mechanism=MECHANISMS.parse(kind or {"kind": "sdpa"}),
        optimisation=recipe,
        max_tokens=max_tokens,
        token_lengths=path,
        masked=True,
    )


def test_the_published_run_fits(tmp_path):
    """The study took 140 minutes for this stage with exact attention, on an A100."""
    assert 140 < minutes(tmp_path) < 3 * 140


def test_more_work_takes_longer(tmp_path):
    assert minutes(tmp_path, documents=100_000) > minutes(tmp_path) > minutes(tmp_path, documents=1_000)
    assert minutes(tmp_path, {"kind": "favor", "nb_features": 64}) < minutes(tmp_path)
    lsh = [minutes(tmp_path, {"kind": "lsh", "num_hashes": n, "chunk_size": 64}) for n in (2, 8)]
    assert lsh[0] < lsh[1] < minutes(tmp_path)


def test_an_assumption_serves_before_the_data_are_there(tmp_path):
    (tmp_path / "none").mkdir()
    estimate = training_minutes(
        encoder=Encoder(),
        mechanism=MECHANISMS.parse({"kind": "sdpa"}),
        optimisation=RECIPE,
        max_tokens=512,
        token_lengths=tmp_path / "none" / "token_lengths.json",
        masked=False,
    )
    assert estimate > START_UP_MINUTES


def test_a_job_has_time_to_start(tmp_path):
    assert minutes(tmp_path, documents=1, mean=10) == pytest.approx(START_UP_MINUTES)
