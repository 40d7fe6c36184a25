"""Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024) for convolutions whose output
is batch-normalised: momentum made orthogonal by Newton-Schulz iterations, so that every direction of a layer's weights
moves at the same speed however small its gradient is.

The scale of such weights is free, so each is held at the norm it would have with rows of norm 1, as the update has:
the learning rate is then the share by which a step turns the weights, at any time of the run. Weight decay would
settle that share only after a long while, and let it lag behind the schedule.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MOMENTUM = 0.95
_STEPS = 5
_A, _B, _C = 3.4445, -4.7750, 2.0315  # a quintic that takes singular values from (0, 1] to about 1 in five steps
_LEAST_BIN = 32


def orthogonalised(x: Tensor) -> Tensor:
    """f32 [n, rows, columns] with rows <= columns: each matrix with its singular values set to about 1. Zero rows and
    columns stay zero."""
    x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-12)).bfloat16()
    for _ in range(_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return x.float()


class _Bin:
    """Weights whose matrices share one padded shape: one batch of matrices, hence few kernels."""

    def __init__(self, weights: list[Tensor], rows: int):
        self.weights, device = weights, weights[0].device
        columns = max(max(w.flatten(1).shape) for w in weights)
        self._gradient = torch.zeros(len(weights), rows, columns, device=device)
        self.momentum = torch.zeros_like(self._gradient)
        self.norms = torch.tensor([w.shape[0] ** 0.5 for w in weights], device=device)
        # An orthogonal matrix with more rows than columns has the norm of its columns: bring it to that of the rows.
        gains = [max(1.0, w.shape[0] / w[0].numel()) ** 0.5 for w in weights]
        self._gains = torch.tensor(gains, device=device)[:, None, None]

    def parts(self, stack: Tensor) -> list[Tensor]:
        """The matrices of a padded stack as views in the shape of their weights; tall ones lie there transposed."""
        views = []
        for w, matrix in zip(self.weights, stack):
            rows, columns = w.flatten(1).shape
            part = matrix[:rows, :columns] if rows <= columns else matrix[:columns, :rows].T
            views.append(part.unflatten(1, w.shape[1:]))
        return views

    def updates(self, lr: Tensor) -> list[Tensor]:
        for part, w in zip(self.parts(self._gradient), self.weights):
            part.copy_(w.grad)
        self.momentum.lerp_(self._gradient, 1 - _MOMENTUM)
        return self.parts(orthogonalised(self._gradient.lerp(self.momentum, _MOMENTUM)) * (lr * self._gains))


class Muon:
    """Steps the weights [outputs, inputs, k, k]; shapes are fixed and nothing waits for the device, so that a CUDA graph
    can hold a step. `lr` is an f32 scalar on their device."""

    def __init__(self, weights: list[Tensor], lr: Tensor):
        self._lr = lr
        sorts: dict[int, list[Tensor]] = {}
        for w in weights:
            least = min(w.flatten(1).shape)
            sorts.setdefault(max(_LEAST_BIN, 1 << (least - 1).bit_length()), []).append(w)
        self._bins = [_Bin(some, rows) for rows, some in sorts.items()]
        self._normalise()

    @torch.no_grad()
    def step(self) -> None:
        for some in self._bins:
            for w, update in zip(some.weights, some.updates(self._lr)):
                w.sub_(update)
        self._normalise()

    @torch.no_grad()
    def _normalise(self) -> None:
        for some in self._bins:
            gains = some.norms / torch.stack(torch._foreach_norm(some.weights))
            for w, gain in zip(some.weights, gains):
                w.mul_(gain)

    def state_dict(self) -> list[Tensor]:
        return [some.momentum for some in self._bins]

    def load_state_dict(self, state: list[Tensor]) -> None:
        for some, momentum in zip(self._bins, state, strict=True):
            some.momentum.copy_(momentum)
