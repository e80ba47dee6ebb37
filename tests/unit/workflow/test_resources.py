import json

from lib.backbones.settings import BACKBONES
from lib.study.recipe import Recipe
from lib.workflow.planning.resources import training_minutes


def backbone(mechanism=None):
    return BACKBONES.parse({"kind": "encoder", "mechanism": mechanism or {"kind": "sdpa"}})


def minutes(tmp_path, mechanism=None, documents=26_710, mean=12_000, epochs=2, steps=None, predicted_share=0.15):
    path = tmp_path / "token_lengths.json"
    path.write_text(json.dumps({"train": {"documents": documents, "mean": mean}}))
    return training_minutes(
        backbone=backbone(mechanism),
        recipe=Recipe(epochs=epochs, steps=steps, learning_rate=1, min_lr_ratio=0, batch_size=100),
        predicted_share=predicted_share,
        max_tokens=16_384,
        token_lengths=path,
    )


def test_minutes_of_published_run(tmp_path):
    """The study took 140 minutes for this stage with exact attention, on an A100."""
    assert 140 < minutes(tmp_path) < 3 * 140


def test_minutes_grow_with_work(tmp_path):
    assert minutes(tmp_path, documents=100_000) > minutes(tmp_path) > minutes(tmp_path, documents=1_000)
    assert minutes(tmp_path, epochs=4) > minutes(tmp_path)
    assert minutes(tmp_path) > minutes(tmp_path, predicted_share=0)
    assert minutes(tmp_path, {"kind": "favor", "nb_features": 64}) < minutes(tmp_path)
    lsh = [minutes(tmp_path, {"kind": "lsh", "num_hashes": n, "chunk_size": 64}) for n in (2, 8)]
    assert lsh[0] < lsh[1] < minutes(tmp_path)


def test_minutes_of_a_number_of_steps(tmp_path):
    assert minutes(tmp_path, documents=1_000, epochs=4, steps=20) == minutes(tmp_path, documents=1_000, epochs=2)
    assert minutes(tmp_path, documents=1_000, epochs=2, steps=90) == minutes(tmp_path, documents=1_000, epochs=2)
    assert minutes(tmp_path, documents=100_000, steps=500) == minutes(tmp_path, documents=50_000, epochs=1)
