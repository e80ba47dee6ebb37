"""The scan of the state space by torch's operations, and how far from it another one is."""

import torch

from lib.backbones.ssm.scan import scan


def run(function, tensors):
    """Return the output and the gradients of inputs, log-decays, write and read directions."""
    *arguments, cotangent = tensors
    leaves = [tensor.detach().requires_grad_() for tensor in arguments]
    output = function(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, cotangent.to(output.dtype))]


def by_torch(tensors, reverse=False, chunk=16):
    """Return output and gradients by torch's operations, in chunks of so many tokens."""

    def scanned(*leaves):
        return scan(*(each.flip(1) for each in leaves), chunk).flip(1) if reverse else scan(*leaves, chunk)

    return run(scanned, tensors)


def truth(tensors, reverse=False, chunk=16):
    """Return output and gradients in float64."""
    return by_torch([tensor.double() for tensor in tensors], reverse, chunk)


def errors(found, expected):
    """Return the relative errors of output and gradients, as norms."""
    return [
        ((mine.double() - theirs).norm() / theirs.norm()).item() for mine, theirs in zip(found, expected, strict=True)
    ]
