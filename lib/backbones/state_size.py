"""The state of a model, in bytes: how much of a text it keeps while it reads it.

A layer computes the output of a token from the token itself and from a state, which is all that it knows of the other
tokens. The state of a recurrent layer is that of its cell; that of attention is what a query is compared with and what
it reads: keys and values of the visible tokens, or their replacements. It is counted for one text and one query, over
all layers and heads, in numbers of 4 bytes (float32).

Settings of mechanisms and backbones give the numbers (`state_numbers`): mechanisms per head, given the length of a text
and the width of a head; backbones for all layers and heads, given the length.

Source:
    S. Arora et al. 2024, "Simple linear attention language models balance the recall-throughput tradeoff", section 3,
    and `state_size` of the mixers of github.com/HazyResearch/zoology, which count numbers over all layers. Those models
    are causal; in both directions a layer keeps one state for either side, or one for both.
"""

from lib.backbones.settings import BackboneSettings

BYTES = 4
"""Size of a float32 number."""


def state_bytes(backbone: BackboneSettings, tokens: int) -> int:
    """Return the bytes that a model keeps of a text, over all layers and heads.

    Args:
        backbone: its settings, with its mechanism; the number must be known (`state_numbers`).
        tokens: real tokens of the text.
    """
    numbers = backbone.state_numbers(tokens)
    assert numbers is not None  # the study was checked
    return BYTES * numbers
