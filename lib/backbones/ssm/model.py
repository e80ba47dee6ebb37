"""The state-space encoder without a task, and what all its models have in common.

Shapes: B batch, N tokens, D hidden size.
"""

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import can_return_tuple

from lib.backbones.ssm.configuration import SsmConfig
from lib.backbones.ssm.mixer import Mixer
from lib.backbones.words import Embeddings, Rows


class SsmPreTrainedModel(PreTrainedModel):
    """Base of the state-space models: configuration, first weights, saving and loading."""

    config_class = SsmConfig
    base_model_prefix = "ssm"
    _input_embed_layer = "word_embeddings"

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, Mixer):
            module.draw()


class Layer(nn.Module):
    """A mixer on normalised states, added to them. There is no feed-forward part: the mixer's gate does its work."""

    def __init__(self, config: SsmConfig) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mixer = Mixer(config)
        self.dropout = nn.Dropout(config.layer_dropout)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """Return the layer's output [B, N, D]; arguments as of `Mixer.forward`."""
        return states + self.dropout(self.mixer(self.layer_norm(states), real))


class SsmModel(SsmPreTrainedModel):
    """Map tokens to states that tell what comes before and after each of them."""

    def __init__(self, config: SsmConfig) -> None:
        super().__init__(config)
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> BaseModelOutput:
        """Return the states of the last layer.

        Padding is ignored at any position in a row: convolutions and scans end where a text ends.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            inputs_embeds: word embeddings to use instead of `input_ids` [B, N, D].
            output_hidden_states: return the states after the embeddings and after each layer, too.
            output_attentions: not available, since there is no attention.

        Returns:
            `last_hidden_state` [B, N, D], zero at padding, and, if asked for, `hidden_states`, the last one of them
            normalised as `last_hidden_state` is.

        Raises:
            ValueError: not exactly one of `input_ids` and `inputs_embeds`; attention weights asked for.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("expected exactly one of input_ids and inputs_embeds.")
        if output_attentions:
            raise ValueError("output_attentions = True, but a state-space encoder has no attention. Leave it out.")
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        states = self.embeddings(input_ids, inputs_embeds)
        rows = Rows(states, attention_mask)
        compact = rows.compact(states)
        real = rows.real.gather(1, rows.order)
        history = []
        for layer in self.layers:
            history.append(compact)
            compact = layer(compact, real)
        states = rows.spread(self.final_norm(compact))
        earlier = (rows.spread(each) for each in history) if output_hidden_states else ()
        return BaseModelOutput(
            last_hidden_state=states, hidden_states=(*earlier, states) if output_hidden_states else None
        )


Model = SsmModel
