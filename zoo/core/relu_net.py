"""The ReLU network with one prior scale for all weights, of which `mc_dropout` and `gaussian_dropout` take another q.

w_l, b_l ~ N(0, 1 / l^2),    h_l = relu(h_(l-1) w_l + b_l),    f = h_(L-1) w_L + b_L,    y_i ~ outcome(f_i)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyro
import pyro.distributions as dist
from torch import Tensor

from .checks import positive, widths
from .outcome import outcome, outputs_of


def relu_net(
    x: Tensor, y: Tensor | None, *, hidden: int | Sequence[int], length_scale: float, noise: float | None, classes: int
) -> Tensor:
    """Samples the weights and y, and returns f.

    Args:
        x: (n, d).
        y: (n,), or None to sample it.
        hidden: Units of each hidden layer.
        length_scale: l.
        noise: sd of y given f in a regression; None: ~ HalfNormal(1).
        classes: 0 for a regression, see `zoo.core.outcome`.
    """
    sizes = (x.shape[-1], *widths("hidden", hidden), outputs_of(classes))
    positive("length_scale", length_scale)
    h = x
    for i, (fan_in, width) in enumerate(itertools.pairwise(sizes), start=1):
        w = pyro.sample(f"w{i}", dist.Normal(x.new_zeros(fan_in, width), 1 / length_scale).to_event(2))  # (in, out)
        b = pyro.sample(f"b{i}", dist.Normal(x.new_zeros(width), 1 / length_scale).to_event(1))  # (out,)
        h = (h.relu() if i > 1 else h) @ w + b
    f = pyro.deterministic("f", h if classes > 2 else h.squeeze(-1))  # (n,) or (n, k)
    if noise is None and not classes:
        noise = pyro.sample("noise", dist.HalfNormal(x.new_ones(())))  # ()
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", outcome(f, noise, classes), obs=y if classes > 2 or y is None else y.to(f.dtype))  # (n,)
    return f
