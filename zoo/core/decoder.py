"""Networks from a latent code to an image and back: shared by the models of images.

    decoder:  h_0 = (z, x),  h_l = act(h_(l-1) w_l + b_l),  f = h_(L-1) w_L + b_L        weights are latent sites
    encoder:  h_0 = (y, x),  the same with weights e_l,  (loc, log sd) = h_(L-1) e_L + c_L     plain parameters

x is a condition of any width, 0 included. The encoder has the decoder's hidden layers in reverse.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from .activations import activation_function
from .checks import positive, widths

Layers = list[tuple[Tensor, Tensor]]


def layer_sites(
    x: Tensor, fan_in: int, outputs: int, *, hidden: int | Sequence[int], prior_scale: float, prefix: str = ""
) -> Layers:
    """Samples w1 (in, out), b1 (out,), ... ~ N(0, prior_scale^2) of a network and returns them.

    Args:
        x: What device and dtype follow.
        fan_in, outputs: Width of the first input and of the last output.
        hidden: Units of each hidden layer; () is a linear map.
        prior_scale: sd of every weight.
        prefix: Put before the sites' names.
    """
    sizes = itertools.pairwise((fan_in, *widths("hidden", hidden), outputs))
    return [dense_site(x, str(i), a, b, prior_scale, prefix) for i, (a, b) in enumerate(sizes, start=1)]


def dense_site(x: Tensor, name: str, a: int, b: int, prior_scale: float, prefix: str = "") -> tuple[Tensor, Tensor]:
    """Samples one layer's w<name> (a, b) and b<name> (b,) ~ N(0, prior_scale^2)."""
    positive("prior_scale", prior_scale)
    w = pyro.sample(f"{prefix}w{name}", dist.Normal(x.new_zeros(a, b), prior_scale).to_event(2))
    return w, pyro.sample(f"{prefix}b{name}", dist.Normal(x.new_zeros(b), prior_scale).to_event(1))


def layer_parameters(
    x: Tensor, fan_in: int, outputs: int, *, hidden: int | Sequence[int], prefix: str, reverse: bool = True
) -> Layers:
    """The same network as plain pyro.params, Glorot-uniform at first, its hidden layers in reverse.

    Args:
        x: What device and dtype follow.
        fan_in, outputs: Width of the first input and of the last output.
        hidden: Units of each hidden layer of the network that this one mirrors.
        prefix: Put before the parameters' names, "encoder." say.
        reverse: False keeps the order of `hidden`.
    """
    middle = widths("hidden", hidden)
    sizes = (fan_in, *(middle[::-1] if reverse else middle), outputs)
    layers = []
    for i, (a, b) in enumerate(itertools.pairwise(sizes), start=1):
        w = pyro.param(f"{prefix}w{i}", _glorot(x, a, b))
        layers.append((w, pyro.param(f"{prefix}b{i}", lambda b=b: x.new_zeros(b))))
    return layers


def _glorot(x: Tensor, a: int, b: int) -> Callable[[], Tensor]:
    return lambda: (6 / (a + b)) ** 0.5 * (2 * torch.rand(a, b) - 1).to(x)


def through(h: Tensor, layers: Layers, activation: str) -> Tensor:
    """A network's output: act between its layers, none after the last. h (n, in) -> (n, out)."""
    act: Any = activation_function(activation)
    for i, (w, b) in enumerate(layers):
        h = torch.nn.functional.linear(act(h) if i else h, w.mT, b)
    return h


def beside(first: Tensor, x: Tensor) -> Tensor:
    """(first, x) side by side; first alone where x has no columns."""
    return torch.cat([first, x], -1) if x.shape[-1] else first


def encode(
    y: Tensor, x: Tensor, latent: int, *, hidden: int | Sequence[int], activation: str, prefix: str = "encoder."
) -> tuple[Tensor, Tensor]:
    """Mean and sd of q(z | y, x), (n, latent) each.

    Args:
        y: Images (n, pixels).
        x: Conditions (n, c); c may be 0.
        latent: Coordinates of z.
        hidden: The decoder's hidden layers.
        activation: A name in `zoo.core.activations`.
        prefix: Put before the parameters' names.
    """
    layers = layer_parameters(x, y.shape[-1] + x.shape[-1], 2 * latent, hidden=hidden, prefix=prefix)
    loc, log_sd = through(beside(y, x), layers, activation).split(latent, -1)
    return loc, log_sd.exp()
