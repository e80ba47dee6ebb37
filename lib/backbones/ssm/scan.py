"""The scan of a state-space layer: at each token the state decays, takes an input, and is read.

Shapes: B batch, N tokens, H heads, P width of a head, S state size, Q tokens of a chunk.
"""

import torch
from torch import Tensor
from torch.nn import functional


def scan(inputs: Tensor, log_decay: Tensor, write: Tensor, read: Tensor, chunk_size: int) -> Tensor:
    """Return the readout of the states h_t = exp(log_decay_t) h_{t-1} + inputs_t write_t^T, which begin at zero.

    Within a chunk it is a product of matrices, as attention is; the state passes from chunk to chunk. So time and
    memory are linear in N.

    Args:
        inputs: [B, N, H, P].
        log_decay: at most 0 [B, N, H].
        write: directions of the inputs in the state, the same for all heads [B, N, S].
        read: directions of the readout [B, N, S].
        chunk_size: Q, which changes no result.

    Returns:
        h_t read_t [B, N, H, P].

    Source:
        Dao and Gu 2024, "Transformers are SSMs", section 6 (block decomposition, listing 1).
    """
    length = inputs.shape[1]
    size = min(chunk_size, length)
    inputs, log_decay, write, read = (_chunks(each, size) for each in (inputs, log_decay, write, read))
    # In float64, since sums are subtracted that one strong decay makes large; by a product, since cumulative sums on a
    # GPU differ from run to run.
    seen = torch.ones(size, size, dtype=torch.float64, device=inputs.device).tril()
    passed = seen @ log_decay.double()  # [B, C, Q, H], from the beginning of the chunk to each token
    between = (passed[:, :, :, None] - passed[:, :, None]).permute(0, 1, 4, 2, 3)  # [B, C, H, Q, Q]
    kept = between.masked_fill(seen == 0, -torch.inf).to(inputs.dtype).exp()
    inside = kept * (read @ write.transpose(2, 3))[:, :, None] @ inputs.transpose(2, 3)  # [B, C, H, Q, P]

    left = (passed[:, :, -1:] - passed).to(inputs.dtype).exp()  # of each token, at the end of the chunk
    passed = passed.to(inputs.dtype)
    taken = torch.einsum("bcqhp,bcqs->bchps", inputs * left[..., None], write)
    whole = passed[:, :, -1].exp()[..., None, None]  # [B, C, H, 1, 1]
    states = [torch.zeros_like(taken[:, 0])]
    # Unbound at once: the gradient of an index is as long as the indexed tensor.
    for decay, new in zip(whole.unbind(1)[:-1], taken.unbind(1)[:-1], strict=True):
        states.append(decay * states[-1] + new)
    handed_on = torch.einsum("bchps,bcqs->bchqp", torch.stack(states, 1), read)
    outputs = inside + handed_on * passed.exp().transpose(2, 3)[..., None]
    return outputs.transpose(2, 3).flatten(1, 2)[:, :length]


def _chunks(rows: Tensor, size: int) -> Tensor:
    """Return rows [B, N, ...] as [B, C, Q, ...], with zeros behind them, which leave a state as it is."""
    missing = -rows.shape[1] % size
    return functional.pad(rows, (0, 0) * (rows.ndim - 2) + (0, missing)).unflatten(1, (-1, size))
