"""How much of a text a model keeps while it reads it: the state, in bytes.

A layer computes the output of a token from the token itself and from a state, which is all that it knows of the other
tokens. The state of a recurrent layer is that of its cell; that of attention is what a query is compared with and what
it reads: keys and values of the tokens that it is scored against, or what stands for them. It is counted for one text
and one query, over all layers and heads, in numbers of 4 bytes (float32).

Each kind says in a module `state_size` of its folder what it keeps: mechanisms of `lib.attention` per head, given the
length of a text and the width of a head; backbones for all layers and heads, given the length. Nothing here is reached
by a training, so it makes no run stale.

Source:
    S. Arora et al. 2024, "Simple linear attention language models balance the recall-throughput tradeoff", section 3,
    and `state_size` of the mixers of github.com/HazyResearch/zoology, which count numbers over all layers. Those models
    are causal; in both directions a layer keeps one state for either side, or one for both.
"""

from lib.attention.parameters import MECHANISMS, MechanismParameters
from lib.backbones.parameters import BACKBONES, BackboneParameters

PART = "state_size"
BYTES = 4
"""Size of a float32 number."""


def per_head(mechanism: MechanismParameters, tokens: int, head_size: int) -> int:
    """Return the numbers that a mechanism keeps of a text in each layer and head of keys.

    Args:
        mechanism: its parameters.
        tokens: real tokens of the text.
        head_size: width of a head.
    """
    return MECHANISMS.load(mechanism.kind, PART).state_size(mechanism, tokens, head_size)


def says_state_size(backbone: BackboneParameters) -> bool:
    """Whether it is known what models with this backbone keep of a text."""
    mechanism = backbone.held_mechanism
    return BACKBONES.has(backbone.kind, PART) and (mechanism is None or MECHANISMS.has(mechanism.kind, PART))


def state_bytes(backbone: BackboneParameters, tokens: int) -> int:
    """Return the bytes that a model keeps of a text, over all layers and heads.

    Args:
        backbone: of which `says_state_size` holds.
        tokens: real tokens of the text.
    """
    return BYTES * BACKBONES.load(backbone.kind, PART).state_size(backbone, tokens)
