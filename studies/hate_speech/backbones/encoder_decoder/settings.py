"""Settings of an encoder-decoder of transformers."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from lib.backbones.settings import VOCABULARY, Ability, ArchitectureSettings
from lib.core.settings import check

ARCHITECTURES = ("t5",)
"""Known values of `model_type`; FLAN-T5 has t5."""
OTHERS = {"num_decoder_layers": int, "vocab_size": int, "feed_forward_proj": str}
"""Fields that may be left out, with their types."""
SIZES = ("d_model", "d_kv", "d_ff", "num_layers", "num_heads")


class Settings(ArchitectureSettings):
    """An encoder-decoder of the sizes that its `config.json` gives. A model's `start` brings weights."""

    own_heads: ClassVar[tuple[str, ...]] = ("text_to_text",)

    kind: Literal["encoder_decoder"] = "encoder_decoder"
    architecture: dict[str, Any]
    """Fields of its `config.json`: `model_type` (`t5`), sizes and all other values that differ from the defaults of
    that type. `tie_word_embeddings: false`, as in FLAN-T5, gives the token scores their own matrix. The numbers of
    special tokens follow from the tokeniser; the decoder starts with the padding token, unless `decoder_start_token_id`
    names another one."""

    @check
    def _architecture_is_known(self) -> Iterator[str]:
        if (kind := self.architecture.get("model_type")) not in list(ARCHITECTURES):
            yield f"architecture.model_type: {kind!r} is no known encoder-decoder. Choose {' or '.join(ARCHITECTURES)}"

    @check
    def _sizes_are_there(self) -> Iterator[str]:
        yield from self.size_errors(SIZES, OTHERS)

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneSettings.abilities`; its states are those of the encoder."""
        return frozenset({"states", "generated_text"})

    def blocks(self) -> int | None:
        """See `BackboneSettings.blocks`: those of the encoder, which lie below all others."""
        return self.architecture["num_layers"]

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """See `BackboneSettings.products_per_token`; per token read; written tokens are a share of these."""
        size = self.architecture
        width, inner = size["d_model"], size["num_heads"] * size["d_kv"]
        feed_forward = (2 + (size.get("feed_forward_proj") or "relu").startswith("gated")) * width * size["d_ff"]
        read = size["num_layers"] * (4 * width * inner + 2 * inner * tokens + feed_forward)
        decoder = size.get("num_decoder_layers") or size["num_layers"]
        keys_and_values = decoder * 2 * width * inner  # of the attention to the encoder
        written = decoder * (6 * width * inner + 2 * inner * tokens * (1 + predicted_share) + feed_forward)
        return read + keys_and_values + predicted_share * (written + width * (size.get("vocab_size") or VOCABULARY))
