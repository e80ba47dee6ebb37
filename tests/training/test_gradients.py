"""64 documents at once and 8 times 8 accumulated are one and the same optimiser step."""

import pytest

from lib.study.run import RunSettings

DROPOUTS = {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "attention_output_dropout": 0.0}
LSTM = {"kind": "recurrent", "hidden_size": 32, "embedding_dropout": 0.0, "layer_dropout": 0.0}
LSH = DROPOUTS | {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}}


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_gradients_of_accumulated_batches(stage, run_of, assert_accumulates):
    task = {} if stage == "pretrain" else {"classifier_dropout": 0.0}
    assert_accumulates(run_of, stage, task=task, backbone=DROPOUTS)


@pytest.mark.extended
@pytest.mark.parametrize(("stage", "backbone"), [("tag", LSTM), ("finetune", LSH)], ids=["tag-lstm", "finetune-lsh"])
def test_gradients_of_accumulated_batches_of_others(stage, backbone, run_of, assert_accumulates):
    assert_accumulates(run_of, stage, task={"classifier_dropout": 0.0}, backbone=backbone)


@pytest.mark.extended
def test_gradients_of_accumulated_batches_of_states(imitation, assert_accumulates):
    def run_of(stage, **changes):
        return RunSettings.model_validate(imitation(**changes))

    assert_accumulates(run_of, "imitate", task={"layers": "all"}, backbone=DROPOUTS)
