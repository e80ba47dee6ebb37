"""64 documents at once and 8 times 8 accumulated are one and the same optimiser step."""

import pytest

from lib.study.run import RunSettings

DROPOUTS = {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "attention_output_dropout": 0.0}


@pytest.mark.parametrize(
    "backbone",
    [
        DROPOUTS | {"mechanism": {"kind": "sdpa"}},
        DROPOUTS | {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 4}},
        {"kind": "recurrent", "hidden_size": 32, "embedding_dropout": 0.0, "layer_dropout": 0.0},
    ],
    ids=["sdpa", "lsh", "lstm"],
)
@pytest.mark.parametrize("stage", ["pretrain", "finetune", "tag"])
def test_accumulated_micro_batches_give_the_gradients_of_the_batch(stage, backbone, run_of, assert_accumulates):
    task = {} if stage == "pretrain" else {"classifier_dropout": 0.0}
    assert_accumulates(run_of, stage, task=task, backbone=backbone)


@pytest.mark.parametrize("layers", ["last", "all"])
def test_so_they_do_where_states_are_learnt(layers, imitation, assert_accumulates):
    def run_of(stage, **changes):
        return RunSettings.model_validate(imitation(**changes))

    assert_accumulates(run_of, "imitate", task={"layers": layers}, backbone=DROPOUTS)
