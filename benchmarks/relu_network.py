"""The papers' ReLUNN: one hidden layer of ReLU units, trained by stochastic gradient descent."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import say

BATCH = 16  # rows of one step, as in the paper
SETTINGS = (
    "ReLU network: torch's initial weights of linear layers from seed 0, mean squared error, "
    f"batches of {BATCH} from a new order in every epoch"
)


def torch_is_there() -> bool:
    """Return whether torch can be imported; without it the networks are left out."""
    found = importlib.util.find_spec("torch") is not None
    if not found:
        say("torch is not installed: the ReLU networks are left out")
    return found


@dataclass(frozen=True)
class ReLUNetwork:
    """One trained network."""

    W: np.ndarray  # (d, m)
    bias: np.ndarray  # (m,)
    v: np.ndarray  # (m,)
    intercept: float

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict (n,) from `X` (n, d)."""
        return np.maximum(X @ self.W + self.bias, 0.0) @ self.v + self.intercept


def fit_relu_networks(
    X: np.ndarray, y: np.ndarray, widths: Sequence[int], *, step_size: float, n_steps: int
) -> list[ReLUNetwork]:
    """Train b networks side by side, in float64: `X` (b, n, d), `y` (b, n), a width for each.

    They take steps together, since a step of Python costs more than b small products. Units
    beyond a network's width are 0 and have no gradient.
    """
    import torch

    b, n, d = X.shape
    rng = torch.Generator().manual_seed(0)
    W, bias, v, intercept = _initial(b, d, widths, rng)
    data, targets = torch.from_numpy(X), torch.from_numpy(y)[:, :, None]
    size = min(BATCH, n)
    starts = range(0, n - size + 1, size)
    for step in range(n_steps):
        if step % len(starts) == 0:
            order = torch.randperm(n, generator=rng)
            A, t = data[:, order], targets[:, order]
        first = starts[step % len(starts)]
        rows = A[:, first : first + size]
        hidden = torch.relu(torch.baddbmm(bias, rows, W))
        # By hand: the networks are so small that automatic differentiation takes most of the time
        change = torch.baddbmm(intercept, hidden, v) - t[:, first : first + size]
        change *= -2.0 * step_size / size
        back = torch.bmm(change, v.mT) * (hidden > 0)
        v.baddbmm_(hidden.mT, change)
        intercept += change.sum(dim=1, keepdim=True)
        W.baddbmm_(rows.mT, back)
        bias += back.sum(dim=1, keepdim=True)
    arrays = [parameter.numpy() for parameter in (W, bias, v, intercept)]
    return [
        ReLUNetwork(
            arrays[0][k, :, :m], arrays[1][k, 0, :m], arrays[2][k, :m, 0], float(arrays[3][k, 0, 0])
        )
        for k, m in enumerate(widths)
    ]


def _initial(b: int, d: int, widths: Sequence[int], rng: Any) -> list[Any]:
    """Draw weights and biases as torch does: uniform, within 1 over the root of the inputs."""
    import torch

    def uniform(*shape: int) -> Any:
        return 2.0 * torch.rand(*shape, generator=rng, dtype=torch.float64) - 1.0

    m, inputs = max(widths), 1.0 / math.sqrt(d)
    hidden = torch.tensor([1.0 / math.sqrt(m) for m in widths], dtype=torch.float64)[:, None, None]
    there = torch.arange(m) < torch.tensor(widths)[:, None]
    return [
        inputs * uniform(b, d, m) * there[:, None, :],
        inputs * uniform(b, 1, m) * there[:, None, :],
        hidden * uniform(b, m, 1) * there[:, :, None],
        hidden * uniform(b, 1, 1),
    ]
