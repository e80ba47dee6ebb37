"""The encoder with one example of every mechanism that is found."""

import pytest
import torch
from encoder_cases import EncoderForMaskedLM, build, labelled
from mechanism_cases import EXAMPLES, EXTENSIONS
from safetensors.torch import load_file, save_file

from lib.attention.settings import MECHANISMS
from lib.backbones.stored import load_weights

pytestmark = pytest.mark.extensions(*EXTENSIONS)

ONE_OF_KIND = {values["kind"]: values for values in reversed(EXAMPLES.values())}
every_kind = pytest.mark.parametrize("kind", ONE_OF_KIND)


@every_kind
def test_model_that_has_learnt_is_loaded(kind, tmp_path):
    positions = "sinusoidal" if MECHANISMS.parse(ONE_OF_KIND[kind]).reads() == "states" else "rope"
    model = build(EncoderForMaskedLM, mechanism=ONE_OF_KIND[kind], position_embedding_type=positions).train()
    batch = labelled(model, 30, 12)
    model(**batch).loss.backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.any() or ".mechanism." not in name, name
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    real, expected = inputs["attention_mask"].bool(), model.eval()(**inputs).logits
    model.save_pretrained(tmp_path)
    same = {"mechanism": model.config.mechanism, "position_embedding_type": positions}
    for loaded in (EncoderForMaskedLM.from_pretrained(tmp_path), build(EncoderForMaskedLM, 1, **same)):
        load_weights(loaded, tmp_path)
        torch.testing.assert_close(loaded.eval()(**inputs).logits[real], expected[real], atol=1e-5, rtol=1e-5)
    alone = model(inputs["input_ids"][1:, :12]).logits
    torch.testing.assert_close(alone[0], expected[1, :12], atol=1e-5, rtol=1e-5)

    drawn = build(EncoderForMaskedLM, feature_seed=5, **same)
    drawn.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    lacking = {name: each for name, each in load_file(path).items() if ".mechanism." not in name}
    save_file(lacking, path, {"format": "pt"})
    loaded = EncoderForMaskedLM.from_pretrained(tmp_path)  # what a mechanism holds is drawn again
    torch.testing.assert_close(loaded.state_dict(), drawn.state_dict(), atol=0, rtol=0)
