"""How much of a text span corruption drops. The workflow asks for it, so this module imports no torch."""


def dropped(tokens: int, rate: float, mean_length: float) -> tuple[int, int]:
    """Return how many tokens of a text are dropped, and in how many spans; neither is drawn.

    Some token is always dropped, and some is always kept. A text of one token or none loses nothing.

    Args:
        tokens: of the text, without those that enclose it.
        rate: share of them that is dropped.
        mean_length: of a span, in tokens.

    Source:
        `random_spans_noise_mask` of the code of Raffel et al. 2020. With rates above 1/2 there are as many spans as for
        the tokens that are kept, so that one of these fits between two spans; transformers' `run_t5_mlm_flax.py` has
        the same limit.
    """
    if tokens < 2:
        return 0, 0
    lost = min(max(round(tokens * rate), 1), tokens - 1)
    return lost, max(round(min(lost, tokens - lost) / mean_length), 1)
