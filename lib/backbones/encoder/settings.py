"""Settings of the encoder that all mechanisms share. Names are those of transformers where it has one."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from lib.core.settings import Probability, Section


class Encoder(Section):
    """Sizes and dropouts of the encoder; each field is the field of the same name in `EncoderConfig`."""

    hidden_size: PositiveInt = Field(512, description="Width of embeddings and hidden states.")
    num_hidden_layers: PositiveInt = Field(4, description="Encoder blocks.")
    num_attention_heads: PositiveInt = Field(8, description="Attention heads; divides `attention_size`.")
    attention_size: PositiveInt | None = Field(
        None, description="Width of queries, keys and values over all heads; null = `hidden_size`."
    )
    intermediate_size: PositiveInt = Field(2048, description="Width of the feed-forward layer (GELU).")
    position_embedding_type: Literal["learned", "sinusoidal", "rope"] = Field(
        "rope",
        description="Position encoding: `learned` and `sinusoidal` are added to embeddings, `rope` turns q and k.",
    )
    max_position_embeddings: PositiveInt = Field(16_384, description="Positions that `learned` reaches, in tokens.")
    rope_theta: PositiveFloat = Field(10_000.0, description="Base of the rotary frequencies.")
    rope_scale: PositiveFloat = Field(1.0, description="Factor on the rotary phase.")
    type_vocab_size: int = Field(0, ge=0, description="Token types; 0 = no token-type embedding.")
    attention_bias: bool = Field(True, description="Biases in the query, key, value and output projections.")
    embedding_dropout: Probability = Field(0.1, description="Dropout on the embeddings.")
    mlp_dropout: Probability = Field(0.1, description="Dropout on the feed-forward output.")
    attention_output_dropout: Probability = Field(0.1, description="Dropout on the attention block's output.")
    attention_dropout: Probability = Field(0.0, description="Dropout on the attention weights.")
    layer_norm_eps: PositiveFloat = Field(1e-12, description="Epsilon of the layer norms.")
    initializer_range: PositiveFloat = Field(0.02, description="Standard deviation of the initial weights.")
    tie_word_embeddings: bool = Field(True, description="Share the MLM decoder's weight with the word embeddings.")

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> "Encoder":
        width = self.attention_size or self.hidden_size
        if width % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads = {self.num_attention_heads} does not divide the attention width {width}. "
                "Choose a divisor, or set attention_size to a multiple of it."
            )
        if self.position_embedding_type == "rope" and self.head_size % 2:
            raise ValueError(
                f"a head is {self.head_size} wide, but `rope` turns pairs and needs an "
                "even width. Change num_attention_heads or attention_size."
            )
        return self

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return (self.attention_size or self.hidden_size) // self.num_attention_heads
