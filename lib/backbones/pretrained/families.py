"""Families of architectures: public switches of causal or bidirectional attention, and names of modules.

No class of transformers is derived from or patched. The real effect of a switch differs between releases, so
`lib.backbones.pretrained.probe` looks at every model that is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Direction = Literal["causal", "bidirectional"]


@dataclass(frozen=True)
class Family:
    """The architectures of one `model_type`.

    Args:
        switches: fields of the configuration that are set for each direction that it supports.
        includes_width: whether an opened window of width w sees distance w, where a causal one ends at w - 1.
        queries: name of the projection of queries in the attention module; None = none of queries alone. Norms on
            queries and keys are `q_norm` and `k_norm`.
        keys: likewise of keys.
        takes_mechanism: whether the attention module gets its attention function from transformers' interface and asks
            it for no more than scaled scores and padding, so that it can be one of this project's mechanisms.
        attention_dropout: field of the configuration that has the dropout of attention weights.
        drops: its value where a file is silent.
        options: arguments of the base model's class.
        blocks: name of the blocks in the base model.
        groups: field of the configuration with the number of blocks, 1 where a file is silent, if several layers share
            one; None = each layer has its own.
        attends: name of the attention module in a block, the only path from a token's state to another token.
        words: name of the word embeddings in the base model; the module around them holds all input embeddings.
        positions: name of the table of positions in the base model, unless `position_biased_input` is false; None =
            positions are not looked up.
        projection: name of the projection in the base model from narrower embeddings to the width of a state, which
            only a model with such embeddings has.
        head: parts of the published language model's head, by those of ours; none = it is not like ours.
        head_activation: field of the configuration that names the activation in that head, if one does.
        gated: whether the feed-forward layer has a third matrix, a gate.
        names: its own names of fields, by those that all others share (`hidden_size`, `intermediate_size`, ...).
        widening: how many times the width of a state its feed-forward layer has where no width is given.
        eager_only: whether it has only the plain implementation of attention.
        first_position: of that table, relative to the number of the padding token; None = the table begins at 0.
        padding: id of the padding token there, independent of the configuration.
        unused_positions: how many of `max_position_embeddings` belong to no token.
        read_alone: whether a document is read without padding, and without documents of other lengths, because its
            states would depend on them.
        global_mask: whether it takes a `global_attention_mask`. The first real token then sees all, and all see it.
    """

    switches: Mapping[Direction, Mapping[str, Any]]
    includes_width: bool = False
    queries: str | None = None
    keys: str | None = None
    takes_mechanism: bool = False
    attention_dropout: str = "attention_dropout"
    drops: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    blocks: str = "layers"
    groups: str | None = None
    attends: str = "self_attn"
    words: str = "embed_tokens"
    positions: str | None = None
    projection: str | None = None
    head: Mapping[str, str] = field(default_factory=lambda: {"decoder": "lm_head"})
    head_activation: str | None = None
    gated: bool = True
    names: Mapping[str, str] = field(default_factory=dict)
    widening: int | None = None
    eager_only: bool = False
    first_position: int | None = None
    padding: int | None = None
    unused_positions: int = 0
    read_alone: bool = False
    global_mask: bool = False

    @property
    def counts_from_padding(self) -> bool:
        """Whether the row of a text's first position follows from the number of the padding token."""
        return self.first_position is not None and self.padding is None


_BY_CAUSALITY = Family(
    {"causal": {"is_causal": True}, "bidirectional": {"is_causal": False}},
    includes_width=True,
    queries="q_proj",
    keys="k_proj",
)


def _head(dense: str, layer_norm: str, decoder: str) -> dict[str, str]:
    return {"dense": dense, "layer_norm": layer_norm, "decoder": decoder}


_OF_BERT = "cls.predictions.transform"
_HEAD_OF_BERT = _head(f"{_OF_BERT}.dense", f"{_OF_BERT}.LayerNorm", "cls.predictions.decoder")
# With the modules of BERT, and an attention of its own.
_LIKE_BERT = Family(
    {"bidirectional": {}},
    blocks="encoder.layer",
    attends="attention.self",
    words="embeddings.word_embeddings",
    positions="embeddings.position_embeddings",
    gated=False,
    attention_dropout="attention_probs_dropout_prob",
    drops=0.1,
    head=_HEAD_OF_BERT,
    head_activation="hidden_act",
    eager_only=True,
)
_BERT = replace(
    _LIKE_BERT,
    switches={"bidirectional": {"is_decoder": False}},
    options={"add_pooling_layer": False},
    queries="query",
    keys="key",
    takes_mechanism=True,
    eager_only=False,
)
_ROBERTA = replace(
    _BERT,
    head=_head("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"),
    head_activation=None,
    first_position=1,
    unused_positions=2,  # the row of the padding token and the one before it
)
_ROTARY = Family({"bidirectional": {}}, queries="q_proj", keys="k_proj", takes_mechanism=True)
_HEAD_OF_MODERNBERT = _head("head.dense", "head.norm", "decoder")
_EAGER = replace(
    _ROBERTA, switches={"bidirectional": {}}, eager_only=True, queries=None, keys=None, takes_mechanism=False
)

FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), _BY_CAUSALITY),
    # It ignores `is_causal`. Opened, its windows reach half as far to either side as before to the left.
    "gemma3_text": Family(
        {"causal": {"use_bidirectional_attention": False}, "bidirectional": {"use_bidirectional_attention": True}},
        queries="q_proj",
        keys="k_proj",
    ),
    **dict.fromkeys(("olmo2", "olmo3", "granite"), _BY_CAUSALITY),
    # Its capped scores exist in its plain attention only, and are no products of queries and keys.
    "gemma2": replace(_BY_CAUSALITY, eager_only=True, queries=None, keys=None),
    "smollm3": _BY_CAUSALITY,
    "phi3": replace(_BY_CAUSALITY, queries=None, keys=None),  # one projection gives queries, keys and values
    "gpt2": Family(
        _BY_CAUSALITY.switches,
        blocks="h",
        attends="attn",
        words="wte",
        positions="wpe",
        gated=False,
        names={
            "hidden_size": "n_embd",
            "intermediate_size": "n_inner",
            "num_hidden_layers": "n_layer",
            "num_attention_heads": "n_head",
            "max_position_embeddings": "n_positions",
        },
        widening=4,
        attention_dropout="attn_pdrop",
    ),
    **dict.fromkeys(("bert", "ernie"), _BERT),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "data2vec-text"), _ROBERTA),
    "distilbert": replace(
        _BERT,
        switches={"bidirectional": {}},
        options={},
        blocks="transformer.layer",
        attends="attention",
        queries="q_lin",
        keys="k_lin",
        head=_head("vocab_transform", "vocab_layer_norm", "vocab_projector"),
        head_activation="activation",
        names={
            "hidden_size": "dim",
            "intermediate_size": "hidden_dim",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "attention_probs_dropout_prob": "attention_dropout",
        },
    ),
    "electra": replace(
        _BERT,
        options={},
        projection="embeddings_project",
        head=_head("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"),
        head_activation=None,
    ),
    "albert": replace(
        _BERT,
        switches={"bidirectional": {}},
        blocks="encoder.albert_layer_groups",
        attends="albert_layers.0.attention",
        queries=None,
        keys=None,
        drops=0.0,
        projection="encoder.embedding_hidden_mapping_in",
        head=_head("predictions.dense", "predictions.LayerNorm", "predictions.decoder"),
        groups="num_hidden_groups",
    ),
    # It adds biases of distances to its scores.
    "mpnet": replace(_EAGER, attends="attention.attn", padding=1),
    "longformer": replace(_EAGER, global_mask=True),
    # Its blocks are counted from the first token on, and the last one, which all tokens see, may be padding.
    "big_bird": replace(
        _LIKE_BERT,
        switches=_BERT.switches,
        options=_BERT.options,
        attends="attention",  # it is replaced depending on the length of a text; its projections stay
        read_alone=True,
    ),
    # Its convolution of values reaches from padding to tokens.
    "nystromformer": replace(_LIKE_BERT, first_position=1, padding=1, read_alone=True),
    "eurobert": _ROTARY,
    "nomic_bert": replace(
        _ROTARY,
        words="embeddings.word_embeddings",
        head=_HEAD_OF_BERT | {"layer_norm": "cls.predictions.transform.layer_norm"},
        head_activation="hidden_act",
        attention_dropout="attention_probs_dropout_prob",
    ),
    "jina_embeddings_v3": replace(
        _ROTARY,
        options={"add_pooling_layer": False},
        words="embeddings.word_embeddings",
        head=_ROBERTA.head,
        gated=False,
        attention_dropout="attention_probs_dropout_prob",
        drops=0.1,
    ),
    # Its windows reach that far to either side; its head, of two matrices before the scores, is not like ours.
    "ultrabert": replace(_ROTARY, includes_width=True, head={}),
    "deberta-v2": _LIKE_BERT,
    "modernbert": Family(
        {"bidirectional": {}},
        includes_width=True,
        attends="attn",
        takes_mechanism=True,
        words="embeddings.tok_embeddings",
        head=_HEAD_OF_MODERNBERT,
        head_activation="classifier_activation",
    ),
    # Its plain attention, which attention maps need, fails where no mask is made: in an open model without padding.
    "modernbert-decoder": replace(
        _BY_CAUSALITY,
        queries=None,
        keys=None,
        attends="attn",
        words="embeddings.tok_embeddings",
        head=_HEAD_OF_MODERNBERT | {"dense": "lm_head.dense", "layer_norm": "lm_head.norm"},
        head_activation="classifier_activation",
    ),
}
"""Families of published encoders, by `model_type`."""
