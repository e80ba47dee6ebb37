"""How much of a gradient arrives from how far: from the last token's state to the embeddings of tokens before it."""

from collections.abc import Iterator

import pandas as pd
import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.analysis.computations.subject import Subject
from lib.core.errors import DataError
from lib.core.randomness import derive_seed

BATCH = 16
"""Sequences at once."""


def analyse(subject: Subject, *, documents: int, tokens: str, length: int) -> pd.DataFrame:
    """Return one row per distance and state of the training.

    Args:
        subject: any run.
        documents: sequences, at most.
        tokens: `random` draws them from the vocabulary, special tokens left out; `documents` takes the last tokens of
            those documents that are long enough.
        length: tokens of a sequence.

    Returns:
        `when` (before, after), `distance` (tokens; 0 = the last token itself), `sequences`, `gradient_norm` (see
        `gradient_norms`), and `relative`, that as a share of the one at distance 0.

    Raises:
        DataError: no document is long enough.
    """
    ids = _drawn(subject, documents, length) if tokens == "random" else _last_tokens(subject, documents, length)
    frames = []
    for when, model in subject.models():
        # In double precision, or what vanishes would be zero long before its time.
        norms = gradient_norms(model.double(), ids, subject.seed)
        shown = list(distances(length))
        frame = pd.DataFrame({"when": when, "distance": shown, "sequences": len(ids)})
        frame["gradient_norm"] = [float(norms[distance]) for distance in shown]
        frames.append(frame.assign(relative=frame["gradient_norm"] / float(norms[0])))
    return pd.concat(frames, ignore_index=True)


def gradient_norms(model: PreTrainedModel, ids: Tensor, seed: int) -> Tensor:
    """Return the norm of the gradient at each distance from the last token, as a mean over the sequences.

    The gradient is that of a fixed random projection of the last token's state, with a direction of length 1, with
    respect to the word embedding at each position.

    Args:
        model: in evaluation mode; its `base_model` maps `inputs_embeds` [B, N, D] to states.
        ids: token ids [S, N].
        seed: of the projection.

    Returns:
        Norms [N], by distance.

    Source:
        Pascanu et al. 2013 (https://arxiv.org/abs/1211.5063), section 2: how gradients vanish over time.
    """
    total = torch.zeros(ids.shape[1], dtype=torch.float64)
    for batch in ids.split(BATCH):
        embeddings = model.get_input_embeddings()(batch).detach().requires_grad_()
        last = model.base_model(inputs_embeds=embeddings).last_hidden_state[:, -1]
        generator = torch.Generator().manual_seed(derive_seed("projection", seed))
        direction = torch.randn(last.shape[1], generator=generator, dtype=torch.float64)
        projected = last.double() @ (direction / direction.norm())
        (gradient,) = torch.autograd.grad(projected.sum(), embeddings)
        total += gradient.double().norm(dim=2).sum(dim=0)
    return total.flip(0) / len(ids)


def distances(length: int) -> Iterator[int]:
    """Yield 0, then 1, 2 and 5 times each power of ten below `length - 1`, then that."""
    yield 0
    scale = 1
    while scale < length:
        yield from (factor * scale for factor in (1, 2, 5) if factor * scale < length - 1)
        scale *= 10
    yield length - 1


def _drawn(subject: Subject, count: int, length: int) -> Tensor:
    """Return token ids [count, length], drawn from the vocabulary without the special tokens."""
    ordinary = torch.tensor(sorted({*subject.tokenizer.get_vocab().values()} - {*subject.tokenizer.all_special_ids}))
    generator = torch.Generator().manual_seed(derive_seed("tokens", subject.seed))
    return ordinary[torch.randint(len(ordinary), (count, length), generator=generator)]


def _last_tokens(subject: Subject, count: int, length: int) -> Tensor:
    """Return the last `length` ids of the first documents that are long enough [<= count, length]."""
    lengths = subject.tokens["length"][:]
    places = [place for place, found in enumerate(lengths) if found >= length][:count]
    if not places:
        raise DataError(
            f"length = {length}: no document is that long; the longest has {max(lengths)}. Lower it, or choose "
            "tokens: random."
        )
    return torch.tensor([ids[-length:] for ids in subject.tokens.select(places)["input_ids"][:]])
