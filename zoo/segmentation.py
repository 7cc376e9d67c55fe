"""The class of every pixel, with the noise of the logits: a convnet with dropout as its q.

    w_l ~ N(0, 1 / c^2)                 (out, in, m, m)    layer l of kernels m x m, dilated l, zero-padded
    b_l ~ N(0, 1 / c^2)                 (out,)             c = length_scale
    h_0 = x,  h_l = relu(h_(l-1) * w_l + b_l),  (f, a) = h_(L-1) * w_L + b_L      w_L (k + 1, in, 1, 1)
    s   = log(1 + exp(a))               (n, height, width), sd of the pixel's logits, deterministic
    y_i ~ Categorical((1 / T) sum_t softmax(f_i + s_i e_t))                       (n, height, width), T = 2 k

    q:  w_l[:, j] = z_lj M_l[:, j],  z_lj ~ Bernoulli(1 - p), a mask a channel before every layer but the first,
        which has one channel;  b_l a point

x (n, 1, height, width), f (n, height, width, k). Pixels are independent given f and s; a row of the data is a picture.

The loss of Kendall & Gal, -log (1/T) sum_t softmax(f + s e_t), draws new e_t ~ N(0, I) at every step. Here e_t are
the 2 k points +-sqrt(k) u_j, u_j the unit vectors: the rule of equal weights that is right for polynomials up to the
third degree. So the likelihood is one function of the weights, the same for every method, nothing is drawn outside
sites, and no class is favoured: to permute the classes permutes the answer. Logits of sd 3 and s up to 4, four
classes: the probabilities are off by .02 (rms), with 8 random e_t by .05; as s grows each keeps 1 / (2 k) at least.
A latent site s e in the plate would bound log E_e p from below by E_e log p, which is another loss.

What s knows is in the data however many there are: aleatoric uncertainty, the entropy of a draw's probabilities.
What draws of the masks disagree about is epistemic: their mutual information (`zoo.uncertainty`, a number a pixel).

Compare: f and the probabilities. What q maximises is no bound: see `guides.bernoulli_dropout`.

Source: Kendall & Gal 2017; Leal-Taixe, "Aleatoric and epistemic uncertainty"; Gal & Ghahramani 2016.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor
from torch.nn.functional import conv2d, softplus

from guides.bernoulli_dropout import bernoulli_dropout
from zoo.core.checks import positive, whole, widths
from zoo.core.problem import Data
from zoo.data import labels, pixels, scenes

CLASSIFY = True
complete = functools.partial(labels.with_classes, dims=3)
OF_Q = ("p",)
P = 0.1


def data(seed: int = 0, n: int = 100, digits: Sequence[int] = (0, 1, 4), noise: float = 0.1) -> Data:
    """Scenes of digits on noise, x (n, 1, 32, 32), y (n, 32, 32): 0 for the background, j + 1 for digits[j]."""
    return scenes.scenes(seed, n, digits, noise)


def prepare(data: Data) -> Data:
    """The data with pictures (n, channels, height, width), bytes divided by 255, and a class 0 ... k - 1 a pixel.

    Raises:
        ValueError: For other shapes and labels.
    """
    return labels.whole_numbers(pixels.channelled(data), dims=3)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    classes: int = 4,
    channels: int | Sequence[int] = (16, 24, 32),
    kernel: int | Sequence[int] = (3, 5, 3),
    length_scale: float = 1.0,
    p: float | Sequence[float] = P,
) -> Tensor:
    sizes, k = (x.shape[1], *widths("channels", channels)), whole("classes", classes)
    positive("length_scale", length_scale)

    def layer(i: int, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        w = pyro.sample(f"w{i}", dist.Normal(x.new_zeros(shape), 1 / length_scale).to_event(4))  # (out, in, s, s)
        b = pyro.sample(f"b{i}", dist.Normal(x.new_zeros(shape[0]), 1 / length_scale).to_event(1))  # (out,)
        return w, b

    h = x
    sides = _sides(kernel, len(sizes) - 1)
    for i, (fan_in, width, m) in enumerate(zip(sizes[:-1], sizes[1:], sides, strict=True), start=1):
        h = conv2d(h, *layer(i, (width, fan_in, m, m)), padding=i * (m // 2), dilation=i).relu()
    out = conv2d(h, *layer(len(sizes), (k + 1, sizes[-1], 1, 1)))  # (n, k + 1, height, width)
    f = pyro.deterministic("f", out[:, :k].movedim(1, -1))  # (n, height, width, k)
    s = pyro.deterministic("s", softplus(out[:, k]))  # (n, height, width)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Categorical(logits=log_mean_softmax(f, s)).to_event(2), obs=y)  # (n, height, width)
    return f


def _sides(kernel: int | Sequence[int], layers: int) -> tuple[int, ...]:
    """Side lengths of the layers' kernels, odd, so that a picture keeps its size."""
    each = widths("kernel", kernel)
    each = each * layers if len(each) == 1 else each
    if len(each) != layers or any(m % 2 == 0 for m in each):
        raise ValueError(f"kernel must be one odd number or {layers}, one a layer, got {kernel!r}. Set kernel=3, say.")
    return each


def log_mean_softmax(f: Tensor, s: Tensor) -> Tensor:
    """log (1 / T) sum_t softmax(f + s e_t), e_t the T = 2 k points +-sqrt(k) u_j.

    Args:
        f: Logits (n, height, width, k).
        s: Their sd (n, height, width).

    Returns:
        Log probabilities (n, height, width, k).
    """
    k = f.shape[-1]
    e = k**0.5 * torch.eye(k, dtype=f.dtype, device=f.device)
    e = torch.cat([e, -e])[..., None, None]  # (2 k, k, 1, 1)
    each = f.movedim(-1, 1).unsqueeze(1) + s[:, None, None] * e  # (n, 2 k, k, height, width): classes lie as f's do
    each = each - each.logsumexp(2, keepdim=True)
    return (each.logsumexp(1) - math.log(2 * k)).movedim(1, -1)


def guide(
    model: Callable[..., Any], *, mask: str = "row", bias: str = "point", point: Sequence[str] = ()
) -> Callable[..., dict[str, Tensor]]:
    """q: dropout of channels at the model's own p, in front of every layer but the first."""
    return bernoulli_dropout(model, _rates, where="inner", mask=mask, bias=bias, point=point)


def _rates(p: float | Sequence[float] = P, **_: Any) -> Any:
    return p
