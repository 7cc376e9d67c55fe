"""`centred`: what a sampler moves of an intercept b is the mean of f over the rows, not b itself.

    f_i = g_i(rest) + b    ->    c = b + mean_i g_i(rest),    pi(rest, c) = pi(rest, b = c - mean g),   |db / dc| = 1

The mean is over all rows i, of more than 4,096 over some 512 of them.

n rows hold the mean of f to within noise / sqrt(n), and every weight before the intercept moves it: one direction of
the posterior, another at each point, is far steeper than all others, and the step size of any integrator a fraction of
its width. Here it is one coordinate, whose scale a diagonal mass learns. On a net 13-50-50-1 of 506 rows the largest
frequency falls from 240 to 69, in units of the prior, and NUTS takes a quarter of the steps.

It is what centring the columns of x does for a linear regression, for any f: density and draws are as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from zoo.core.handlers import LogProb, Record, Unconstrained, pyro_state, scaled_log_prob

from .subsample import batch_size

if TYPE_CHECKING:
    from .density import Block, Density


# Amounts by which an intercept is moved: far enough both ways to meet a relu's corner, a clamp or a link's bend.
SHIFTS = (0.5, -1.0, 20.0, -20.0, 1e4, -1e4)
# Of more rows the mean is that of some 512: what it misses of all rows' mean is as steep as 1 / 512 of f's variance.
ALL, SOME = 4096, 512


class Intercept(NamedTuple):
    """What f is shifted by: a latent site, f's own name, and which of the site's numbers shift each output of f.

    `columns` are where these lie in a position.
    """

    site: str
    f: str
    numbers: tuple[int, ...]
    columns: tuple[int, ...]


class Centred(Unconstrained):
    """Answers latent sites as `Unconstrained` does, an intercept by the mean of f.

    The model runs with the intercept at 0, so that it computes g; its statement of f then gives back f itself. What the
    intercept is, and its log probability, is known from then on.
    """

    def __init__(self, coordinates: Mapping[str, Tensor], sequential: Iterable[str], intercept: Intercept) -> None:
        super().__init__(coordinates, sequential)
        self.intercept, site = intercept, coordinates[intercept.site]
        self.mean = _taken(site, intercept.numbers)
        self.coordinates = {**coordinates, intercept.site: _put(site, intercept.numbers, torch.zeros_like(self.mean))}
        self.message: Any = None

    def _pyro_sample(self, msg: Any) -> None:
        super()._pyro_sample(msg)
        if msg["name"] == self.intercept.f:
            g, site = msg["value"], self.intercept.site
            # In float64: a float32 sum's last digit depends on how many chains lie beside it.
            shift = self.mean - some_rows(g).mean(0, dtype=torch.float64).to(g).reshape(-1)
            msg["value"] = g + shift.reshape(g.shape[1:])
            self.values[site] = self.message["value"] = _put(self.values[site], self.intercept.numbers, shift)

    def _pyro_post_sample(self, msg: Any) -> None:
        if msg["name"] == self.intercept.site:
            self.message = msg

    def log_prob(self) -> Tensor:
        """That of the intercept's site, float64."""
        return scaled_log_prob(self.message)


def some_rows(value: Tensor) -> Tensor:
    """The rows of a tensor (n, ...) that the mean of f is taken over: all, of more than 4,096 some 512 evenly spaced.

    |db / dc| = 1 whichever they are; few of them let a density be computed on pieces of its rows.
    """
    return value if len(value) <= ALL else value[:: len(value) // SOME]


def later_log_prob(point: Unconstrained) -> dict[str, Tensor]:
    """{site: log probability} of what a handler knew only once the model had run."""
    return {point.intercept.site: point.log_prob()} if isinstance(point, Centred) else {}


def _taken(value: Tensor, numbers: tuple[int, ...]) -> Tensor:
    """Some of a site's numbers, (k,)."""
    flat = value.reshape(-1)
    return flat if _is_all(value, numbers) else flat[torch.tensor(numbers, device=value.device)]


def _put(value: Tensor, numbers: tuple[int, ...], new: Tensor) -> Tensor:
    """A site's value with other numbers (k,) in their places."""
    if not _is_all(value, numbers):
        new = value.reshape(-1).index_copy(0, torch.tensor(numbers, device=value.device), new)
    return new.reshape(value.shape)


def _is_all(value: Tensor, numbers: tuple[int, ...]) -> bool:
    return numbers == tuple(range(value.numel()))


def with_mean(position: Tensor, sites: Mapping[str, Any], intercept: Intercept) -> Tensor:
    """A position (dim,) with the mean of f, from a trace's messages, in the intercept's columns."""
    columns = torch.tensor(intercept.columns, device=position.device)
    return position.index_copy(0, columns, some_rows(sites[intercept.f]["value"]).mean(0).reshape(-1).to(position))


def may_centre(kernel: Any, dim: int, own: dict[str, Any], kind: str, centre: bool) -> bool:
    """Whether an intercept may be sampled as the mean of f: of all rows, with a scale that is learned.

    Not with mass="unit", whose coordinates and step sizes are the lectures', nor by kernels whose step size is not
    tuned to an acceptance (sgld and its kind), nor on minibatches, `own` or the kernel's default.
    """
    tuned = centre and kind != "unit" and kernel.TARGET_ACCEPT is not None
    return tuned and batch_size(kernel.setup(dim, **own).noise) is None


def centred(target: Density) -> Density:
    """The same density with the mean of f in place of an intercept; as it is where the model has none.

    An intercept is a number for each output of f (names["f"], a pyro.deterministic), the same for all rows, in a real
    site: it shifts every row's f by itself and changes the density through f alone. Found by trying.
    """
    f = target.problem.names["f"]
    if f not in target.sites.deterministic:
        return target
    generator = torch.Generator().manual_seed(0)
    points = (torch.rand(2, target.dim, generator=generator, dtype=torch.float64) * 2 - 1).to(target.problem.tensor)
    with pyro_state(validate=False), torch.no_grad():
        before = [_f(target, f, point) for point in points]
        blocks = [block for block in target.blocks if _may_be(target, block, before[0])]
        tries = [(*at, size) for at in zip(points, before, strict=True) for size in SHIFTS]
        found = [(block, {_shifting(target, f, block, *one) for one in tries}) for block in blocks]
    for block, answers in found:
        numbers = answers.pop()
        if numbers and not answers:
            columns = tuple(block.start + number for number in numbers)
            new = target.with_intercept(Intercept(block.name, f, numbers, columns))
            if all(_is_same(target, new, position) for position in (*points, *_with_moved(points[0], columns))):
                return new
    return target


def _with_moved(position: Tensor, columns: tuple[int, ...]) -> list[Tensor]:
    """A position with the intercept elsewhere, by each of SHIFTS."""
    intercept = torch.zeros_like(position)
    intercept[list(columns)] = 1
    return [position + size * intercept for size in SHIFTS]


def _f(target: Density, name: str, position: Tensor) -> Tensor:
    args, kwargs = target.problem.arguments()
    with Record() as record, target.at(position):
        target.problem.model(*args, **kwargs)
    value: Tensor = record.sites[name]["value"]
    return value


def _may_be(target: Density, block: Block, f: Tensor) -> bool:
    """Whether a site may hold a number for each output of f, (rows,) or (rows, k), and has none for each row."""
    from .density import is_real

    site = target.sites.latent[block.name]
    each = is_real(site.fn.support) and not site.local and block.coordinates == block.shape
    rows = f.is_floating_point() and f.dim() in (1, 2) and f.shape[0] > 1
    return each and rows and block.shape.numel() >= f[0].numel()


def _shifting(
    target: Density, name: str, block: Block, position: Tensor, before: Tensor, size: float
) -> tuple[int, ...]:
    """Which of a site's numbers shift the outputs of f, all rows alike and by as much as they move; () if they do not.

    All of them are moved, each by another amount from `size` to half as much again, which says whose shift it was.
    """
    count = block.stop - block.start
    by = torch.linspace(size, 1.5 * size, count, dtype=torch.float64)
    moved = position.clone()
    moved[block.start : block.stop] += by.to(position)
    try:
        after = _f(target, name, moved)
    except Exception:  # a model may refuse values so far out, in words of its own
        return ()
    shifts = (after - before).double().cpu().reshape(len(before), -1)
    nearest = (shifts[0, :, None] - by).abs().argmin(1)
    largest = 1 + float(torch.maximum(before.abs(), after.abs()).max())
    room = min(0.1 * abs(size) / count, 100 * torch.finfo(before.dtype).eps * largest)
    if not bool(((shifts - by[nearest]).abs() <= room).all()) or len(set(nearest.tolist())) < len(nearest):
        return ()
    return tuple(nearest.tolist())


def _is_same(plain: Density, new: Density, position: Tensor) -> bool:
    """Whether every site has the same log probability at the same values: does anything but f depend on the intercept?

    Site by site: what one of them is off by could drown in the sum of y's rows. Also where the intercept is far away:
    what depends on it weakly, or beyond a threshold alone, is seen there.
    """
    assert new.intercept is not None
    try:
        before, sites = _log_probs(plain, position)
        after, _ = _log_probs(new, with_mean(position, sites, new.intercept))
    except Exception:  # as in `_shifting`
        return False
    return all(torch.allclose(after[n], before[n], rtol=1e-3, atol=1e-3, equal_nan=True) for n in before)


def _log_probs(target: Density, position: Tensor) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """{site: log probability} at a position, and the model's messages there."""
    args, kwargs = target.problem.arguments()
    with pyro_state(validate=False), torch.no_grad(), Record() as record:
        with LogProb() as log_prob, target.at(position) as point:
            target.problem.model(*args, **kwargs)
    return log_prob.sites | later_log_prob(point), record.sites
