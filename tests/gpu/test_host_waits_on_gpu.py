"""A training step of the encoder waits for the GPU nowhere: CUDA itself says so. It needs transformers, too."""

import pytest
import torch
from encoder_cases import EXAMPLES, EncoderForMaskedLM, EncoderForSequenceClassification, build, labelled

from lib.attention.contract import set_step
from lib.tokens.batches import known_beforehand

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")]


@pytest.fixture
def waiting_is_an_error():
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("mechanism", EXAMPLES)
@pytest.mark.parametrize(
    ("head", "lengths"), [(EncoderForMaskedLM, (9, 4)), (EncoderForSequenceClassification, (9, 9))]
)
def test_host_during_a_step(mechanism, head, lengths, waiting_is_an_error):
    model = build(head, mechanism=EXAMPLES[mechanism]).train().cuda()
    known = known_beforehand(labelled(model, *lengths), scored=head is EncoderForMaskedLM)
    batch = {name: tensor.cuda() for name, tensor in known.items()}
    model(**batch).loss.backward()  # sets up what stays
    set_step(model, 1)
    waiting_is_an_error()
    model(**batch).loss.backward()
