"""Any kernel on an analytic target: marched with many independent chains, or read off as the linear map that it is.

Chains that start in a law which the kernel keeps still have it after any number of iterations, and chains are
independent of each other: means over chains have standard errors without any autocorrelation. A kernel without an
accept step is, on a Gaussian, a linear map x' = A x + B n; its law solves V = A V A^T + B B^T, to rounding.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from scipy import linalg, stats
from torch import Tensor

from zoo.infer.mass import Mass, unit
from zoo.infer.noise import van_der_corput

ALPHA = 1e-4  # the chance that a right kernel fails one p-value below
Noise = dict[str, Tensor]
Target = Callable[..., tuple[Tensor, Tensor]]
PIECE = 32  # iterations whose noise is in memory at once


class Marched(NamedTuple):
    """Iterations kept, at the end of a march.

    Attributes:
        position: (iteration, chain, dim).
        accept: (iteration, chain).
        energy: (iteration, chain).
        state: The kernel's own, after the last.
    """

    position: Tensor
    accept: Tensor
    energy: Tensor
    state: Any


def kernel_of(name: str) -> Any:
    return importlib.import_module(f"zoo.infer.kernels.{name}")


def rows_of(kind: str, shape: tuple[int, ...], n: int, count: int, chains: int, generator: torch.Generator) -> Tensor:
    """Minibatches (count, chain, *shape) of n rows, drawn for all chains at once."""
    if kind == "replacement":
        return torch.randint(n, (count, chains, *shape), generator=generator)
    needed = count * math.prod(shape)
    shuffles = torch.rand(chains, -(-needed // n), n, generator=generator).argsort(-1)
    return shuffles.reshape(chains, -1)[:, :needed].reshape(chains, count, *shape).transpose(0, 1)


def draw_noise(shapes: Any, n: int, first: int, count: int, chains: int, generator: torch.Generator) -> Noise:
    """Noise of iterations first ... first + count - 1, all in float64."""
    noise, options = {}, {"generator": generator, "dtype": torch.float64}
    for name, (kind, shape) in shapes.items():
        if kind == "normal":
            noise[name] = torch.randn(count, chains, *shape, **options)
        elif kind == "uniform":
            noise[name] = torch.rand(count, chains, *shape, **options)
        elif kind == "sequence":
            noise[name] = van_der_corput(count, first).double()[:, None].expand(count, chains)
        else:
            noise[name] = rows_of(kind, shape, n, count, chains, generator)
    return noise


def march(
    name: str, start: Tensor, target: Target, step_size: float, iterations: int, *, keep: int | None = None,
    seed: int = 0, n: int = 0, mass: Mass | None = None, tuned: dict[str, float] | None = None,
    begin: Callable[[Any], Any] = lambda state: state, change: Callable[[Noise], Noise] = lambda noise: noise,
    **own: Any,
) -> Marched:  # fmt: skip
    """Runs a kernel.

    Args:
        name: Its file.
        start: (chain, dim).
        target: Positions (and rows of a minibatch) -> log densities (chain,), gradients (chain, dim).
        step_size: Its step size.
        iterations, keep: How many, and how many of the last to keep; None: all.
        seed: Of its noise.
        n: Rows of the data, for kernels on minibatches.
        mass: None: the unit matrix.
        tuned: Tuned numbers that differ from those of `setup`.
        begin: Changes the state that it starts with, which is at rest.
        change: Broken twins change the noise.
        own: Options of `setup`.
    """
    kernel, (chains, dim) = kernel_of(name), start.shape
    setup, mass = kernel.setup(dim, **own), unit(start[0]) if mass is None else mass
    generator = torch.Generator().manual_seed(1_000_003 + seed)  # no number that drew the start, too
    state = begin(kernel.init(start, *target(start), setup.constants))
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    for first in range(0, iterations, PIECE):
        count = min(PIECE, iterations - first)
        noise = change(draw_noise(setup.noise, n, first, count, chains, generator))
        numbers = {**setup.tuned, **(tuned or {}), "step_size": step_size}
        if "clock" in setup.tuned:
            numbers["clock"] = float(first)
        state = state._replace(completed=torch.zeros(chains, dtype=torch.int64))
        tensors = {key: start.new_tensor(value) for key, value in numbers.items()}
        out = Marched(start.new_zeros(count, chains, dim), *start.new_zeros(2, count, chains), None)
        while int(state.completed.min()) < count:
            state, draw = kernel.step(
                state, target, noise, mass=mass, stop=torch.tensor(count), **tensors, **setup.constants
            )
            chain = draw.done.nonzero()[:, 0]
            place = draw.iteration[chain], chain
            out.position[place], out.accept[place] = draw.position[chain], draw.accept[chain].double()
            out.energy[place] = draw.energy[chain].double()
        skip = max(0, iterations - (keep or iterations) - first)
        kept.append((out.position[skip:], out.accept[skip:], out.energy[skip:]))
    return Marched(*(torch.cat(parts) for parts in zip(*kept, strict=True)), state)


# -- targets -----------------------------------------------------------------------------------------------


def gaussian(precision: Tensor) -> Target:
    """N(0, precision^-1), without its constant."""
    return lambda q, rows=None: (-0.5 * (q @ precision * q).sum(-1, dtype=torch.float64), -q @ precision)


def normals(covariance: Tensor, chains: int, seed: int) -> Tensor:
    """Exact draws (chain, dim) of N(0, covariance)."""
    generator = torch.Generator().manual_seed(seed)
    standard = torch.randn(chains, len(covariance), generator=generator, dtype=torch.float64)
    return standard @ torch.linalg.cholesky(covariance).T


def scalar(value: float) -> Tensor:
    """(1, 1)."""
    return torch.tensor([[value]], dtype=torch.float64)


# -- judging -----------------------------------------------------------------------------------------------


def p_of_mean(values: Tensor, right: float) -> float:
    """Two-sided p of the mean of values (iteration, chain), from the chains' own means, against the right one."""
    means = values.mean(0)
    score = float((means.mean() - right) / (means.std() / len(means) ** 0.5).clamp(min=1e-300))
    return float(2 * stats.norm.sf(abs(score)))


def p_of_bins(values: Tensor, cdf: Callable[[Tensor], Tensor]) -> float:
    """Chi-square of one value a chain (chain,) on 20 bins of equal probability."""
    bins = (cdf(values) * 20).clamp(0, 19.999).long().bincount(minlength=20)
    return float(stats.chisquare(bins.numpy()).pvalue)


def p_of_normal(position: Tensor, covariance: Tensor) -> float:
    """Smallest p, Bonferroni-corrected, that positions (iteration, chain, dim) are N(0, covariance)'s.

    Whitened coordinates: means, second moments and cross moments over all iterations, 20 bins of the last.
    """
    root = torch.linalg.cholesky(covariance)
    z = torch.linalg.solve_triangular(root, position.transpose(-1, -2), upper=False).transpose(-1, -2)
    values = []
    for i in range(z.shape[-1]):
        values += [p_of_mean(z[..., i], 0.0), p_of_bins(z[-1, :, i], torch.special.ndtr)]
        values += [p_of_mean(z[..., i] * z[..., j], float(i == j)) for j in range(i + 1)]
    return min(values) * len(values)


# -- linear kernels ----------------------------------------------------------------------------------------


class LinearMap(NamedTuple):
    """x' = A x + B n + C xi of one iteration; x = (position, velocity), n its own noise, xi the gradient's."""

    a: Tensor
    b: Tensor
    c: Tensor

    def law(self, noise_covariance: Tensor | None = None) -> Tensor:
        """The stationary covariance, xi ~ N(0, noise_covariance)."""
        injected = self.b @ self.b.T
        if noise_covariance is not None:
            injected = injected + self.c @ noise_covariance @ self.c.T
        return torch.from_numpy(linalg.solve_discrete_lyapunov(self.a.numpy(), injected.numpy()))


def speed_of(name: str) -> str | None:
    """The field of a kernel's state that is a velocity; None: it has none."""
    return next((field for field in ("velocity", "momentum") if field in kernel_of(name).State._fields), None)


def linear_map(
    name: str, precision: Tensor, step_size: float, *, mass: Mass | None = None, drift: float = 1.0,
    change: Callable[[Noise], Noise] = lambda noise: noise, **own: Any,
) -> LinearMap:  # fmt: skip
    """A, B and C of a kernel without an accept step on N(0, precision^-1), from one step at each unit vector.

    Args:
        name: Its file.
        precision: (dim, dim).
        step_size: Its step size.
        mass: None: the unit matrix.
        drift: Factor on the gradient; broken twins have another.
        change: Broken twins change the noise.
        own: Options of `setup`.
    """
    kernel, dim = kernel_of(name), len(precision)
    setup = kernel.setup(dim, **own)
    speed = speed_of(name)
    size = dim if speed is None else 2 * dim
    eye = torch.eye(size + 2 * dim, dtype=torch.float64)
    x, n, xi = eye[:, :size], eye[:, size : size + dim], eye[:, size + dim :]

    def target(q: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return -0.5 * (q @ precision * q).sum(-1), drift * (-q @ precision - xi)

    noise = draw_noise(setup.noise, 1, 0, 1, len(eye), torch.Generator())
    [normal] = [key for key, (kind, _) in setup.noise.items() if kind == "normal"]
    noise = change({**{key: torch.zeros_like(value) for key, value in noise.items()}, normal: n[None]})
    state = kernel.init(x[:, :dim], *target(x[:, :dim]), setup.constants)
    if speed is not None:
        state = state._replace(**{speed: x[:, dim:]})
    numbers = {key: x.new_tensor(value) for key, value in {**setup.tuned, "step_size": step_size}.items()}
    mass = unit(x[0, :dim]) if mass is None else mass
    state, _ = kernel.step(state, target, noise, mass=mass, stop=torch.tensor(1), **numbers, **setup.constants)
    columns = state.position if speed is None else torch.cat([state.position, getattr(state, speed)], 1)
    return LinearMap(*(part.T.contiguous() for part in columns.split([size, dim, dim])))
