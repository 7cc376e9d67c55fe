"""Small generated data sets: deterministic in `seed`, CPU, float32, no file and no download."""

from __future__ import annotations

import math

import torch

from zoo.core.checks import check_seed, positive, whole
from zoo.core.problem import Data

from .faces import faces as faces


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(check_seed(seed))


def flips(seed: int = 0, n: int = 2, heads: int | None = None) -> Data:
    """A coin flipped n times: `heads` ones (None: all n) in an order drawn by `seed`. x (n, 0), y (n,)."""
    heads = whole("n", n) if heads is None else heads
    if not isinstance(heads, int) or not 0 <= heads <= whole("n", n):
        raise ValueError(f"heads must be between 0 and n = {n}, a whole number, got {heads!r}. Leave it out for all.")
    order = torch.randperm(n, generator=_generator(seed))
    y = (order < heads).float()
    return Data(torch.empty(n, 0), y, info={"y_name": "heads", "source": f"{heads} heads of {n} flips"})


def line(seed: int = 0, n: int = 25, noise: float = 0.6, outputs: int = 1) -> Data:
    """y = .3 + 1.2 x + N(0, noise), x uniform on (-1, 1); column j of several outputs has slope 1.2 (j + 1).

    x (n, 1), y (n,) or (n, outputs); the test set is a grid of 61 points on (-3, 3).
    """
    n, outputs = whole("n", n), whole("outputs", outputs)
    generator = _generator(seed)
    slope = 1.2 * torch.arange(1, outputs + 1)

    def targets(x: torch.Tensor) -> torch.Tensor:
        y = 0.3 + x * slope + noise * torch.randn(len(x), outputs, generator=generator)
        return y[:, 0] if outputs == 1 else y

    x = torch.rand(n, 1, generator=generator) * 2 - 1
    grid = torch.linspace(-3, 3, 61)[:, None]
    return Data(x, targets(x), grid, targets(grid), info=_info("line", "y", seed, n))


def sin_x_plus_x(seed: int = 0, n: int = 100, noise: float = 0.1) -> Data:
    """y = sin(x) + x + N(0, noise), x uniform on (-4, 4).

    x (n, 1), y (n,); the test set is a grid of 121 points on (-6, 6), a third of it outside the data.
    """
    n, generator = whole("n", n), _generator(seed)

    def targets(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() + x)[:, 0] + noise * torch.randn(len(x), generator=generator)

    x = torch.rand(n, 1, generator=generator) * 8 - 4
    grid = torch.linspace(-6, 6, 121)[:, None]
    return Data(x, targets(x), grid, targets(grid), info=_info("sin_x_plus_x", "y", seed, n))


def noisier_to_the_right(seed: int = 0, n: int = 200) -> Data:
    """y = sin(x) + x + N(0, `noise_at(x)`), x uniform on (-4, 4).

    x (n, 1), y (n,); the test set is a grid of 121 points on (-6, 6), a third of it outside the data.
    """
    n, generator = whole("n", n), _generator(seed)

    def targets(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() + x)[:, 0] + noise_at(x) * torch.randn(len(x), generator=generator)

    x = torch.rand(n, 1, generator=generator) * 8 - 4
    grid = torch.linspace(-6, 6, 121)[:, None]
    return Data(x, targets(x), grid, targets(grid), info=_info("noisier_to_the_right", "y", seed, n))


def noise_at(x: torch.Tensor) -> torch.Tensor:
    """The noise that made `noisier_to_the_right`: .1 + .6 sigmoid(x), (n,).

    Args:
        x: (n, 1).
    """
    return 0.1 + 0.6 * x[:, 0].sigmoid()


def blobs(seed: int = 0, n: int = 100, d: int = 2, gap: float = 2.0) -> Data:
    """Two classes of equal chance, x | class ~ N(+-gap / 2 along the diagonal, I).

    x (n, d), y (n,) of 0 and 1; the test set holds as many rows.
    """
    n, d, generator = whole("n", n), whole("d", d), _generator(seed)
    y = (torch.rand(2 * n, generator=generator) < 0.5).float()
    centre = (2 * y - 1)[:, None] * gap / 2 / d**0.5
    x = centre + torch.randn(2 * n, d, generator=generator)
    info = {**_info("blobs", "class", seed, n, d), "classes": ["0", "1"]}
    return Data(x[:n], y[:n], x[n:], y[n:], info=info)


def wheel(seed: int = 0, n: int = 150, classes: int = 3, radius: float = 2.0) -> Data:
    """k classes of equal chance, x | class j ~ N(radius (cos, sin)(2 pi j / k), I).

    x (n, 2), y (n,) of 0 ... k - 1; the test set holds as many rows.
    """
    n, k, generator = whole("n", n), whole("classes", classes), _generator(seed)
    y = torch.randint(k, (2 * n,), generator=generator)
    angle = 2 * math.pi * y / k
    x = radius * torch.stack([angle.cos(), angle.sin()], 1) + torch.randn(2 * n, 2, generator=generator)
    info = {**_info("wheel", "class", seed, n, 2), "classes": [str(j) for j in range(k)]}
    return Data(x[:n], y[:n], x[n:], y[n:], info=info)


def moons(seed: int = 0, n: int = 100, noise: float = 0.2) -> Data:
    """Two half circles of radius 1 that reach into each other, moved by N(0, noise).

    x (n, 2), centred, class 0 above and class 1 below, y (n,); the test set holds as many rows.
    """
    n, generator = whole("n", n), _generator(seed)
    positive("noise", noise)
    y = (torch.rand(2 * n, generator=generator) < 0.5).long()
    angle, side = math.pi * torch.rand(2 * n, generator=generator), 1 - 2 * y
    x = torch.stack([side * angle.cos() + y - 0.5, side * angle.sin() + 0.5 * y - 0.25], 1)
    x = x + noise * torch.randn(2 * n, 2, generator=generator)
    info = {**_info("moons", "class", seed, n, 2), "classes": ["0", "1"]}
    return Data(x[:n], y[:n], x[n:], y[n:], info=info)


def _info(name: str, y_name: str, seed: int, n: int, d: int = 1) -> dict[str, object]:
    x_names = ["x"] if d == 1 else [f"x{i + 1}" for i in range(d)]
    return {"x_names": x_names, "y_name": y_name, "source": f"toy.{name}(seed={seed}, n={n})"}
