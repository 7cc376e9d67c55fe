"""`in_pieces`: whether a gradient of all rows is computed in pieces, and of how many rows.

A row of the gradient of all chains has so many numbers in its largest tensor: of a network 1-50-1 four chains' 200.
Once all rows' numbers leave the cache each operation waits for memory; a piece of some 131,072 stays in it. No timing
is asked for the answer, which is that of every run of this problem on so many threads.

Rows must be independent given the latents. A model may break that unsaid: by x.mean(), by the number of rows, by a
table of its own with an entry a row. It is tried, and such a model is left whole.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from zoo.core.handlers import pyro_state
from zoo.core.over_draws import pixels_of
from zoo.core.problem import Data

from .centred import ALL
from .density import Density
from .graph import key_of, trace
from .in_pieces import InPieces, Pair
from .known import asks_for_numbers
from .subsample import check_subsample

log = logging.getLogger("zoo")
PIECE = 131_072  # numbers of a piece's largest tensor, for each thread
# Below so many pieces all rows are about as fast; of so few rows each, their sums cost more than the rows.
LEAST_PIECES, LEAST_ROWS = 8, 16
# A prime: what has a multiple of so many numbers, of a graph of so many rows, has a number for each row.
PROBED = 251
FEW, CUT = 48, 17  # rows to try, in pieces of 17, 17 and 14
CLOSE = {torch.float32: 1e-4, torch.float64: 1e-9}


def in_pieces(target: Density, chains: int) -> Density:
    """The density with its gradient in pieces of rows, where its numbers leave the cache; else as it is.

    Args:
        target: A density of all rows.
        chains: How many positions a gradient is taken at.
    """
    if not _can_be_cut(target):
        return target
    (x, _), _ = arguments = target.problem.arguments()
    room = PIECE * torch.get_num_threads()
    # No tensor has more numbers a row than the model has weights, or the row has inputs and pixels.
    most = chains * max(target.dim * pixels_of(arguments), x[0].numel())
    few_rows = len(x) <= (PROBED if target.intercept is None else ALL)
    if few_rows or len(x) * most < LEAST_PIECES * room or chains * target.dim > PIECE:
        return target
    each = numbers_of_a_row(target, chains)
    size = -(-room // (LEAST_ROWS * max(1, each))) * LEAST_ROWS
    if not each or room < LEAST_ROWS * each or len(x) <= LEAST_PIECES * size:
        return target
    new = InPieces(target, size)
    if not is_sum(new):
        log.info("rows of model '%s' depend on each other; they are computed together", target.problem.name)
        return target
    return new


def _can_be_cut(target: Density) -> bool:
    """Whether the data are rows of x and y, with a term each in the data plate, on a CPU, for all chains at once."""
    problem = target.problem
    if target.engine != "eager" or target.device.type != "cpu" or target.dtype not in CLOSE:
        return False
    if not isinstance(problem.data, Data) or problem.data.y is None or not target.sites.observed:
        return False
    try:
        check_subsample(problem, target.sites, 1)
    except ValueError:
        return False
    return True


def numbers_of_a_row(target: Density, chains: int) -> int:
    """How many numbers of each row the largest tensor of a gradient of so many chains has.

    0 where some rows are no answer for all: the model asks its data for numbers, int(y.max()); it takes them out of the
    tracer's sight, x.numpy(), so that two pieces' graphs hold different ones; it wants as many rows as there are.
    """
    (x, y), _ = target.problem.arguments()
    try:
        first, last = (_traced(target, chains, x[rows], y[rows]) for rows in (slice(PROBED), slice(-PROBED, None)))
    except Exception:  # a model may refuse other numbers of rows, in words of its own
        return 0
    if first is None or last is None or key_of(first, ()) != key_of(last, ()):
        return 0
    shapes = (getattr(node.meta.get("tensor_meta"), "shape", None) for node in first.graph.nodes)
    sizes = [shape.numel() for shape in shapes if shape is not None]
    return max(1, *(size // PROBED for size in sizes if size % PROBED == 0))


def _traced(target: Density, chains: int, x: Tensor, y: Tensor) -> torch.fx.GraphModule | None:
    """The graph of what some rows add, for so many chains; None where the model asks them for numbers."""
    _, kwargs = target.problem.arguments()
    cut, u = InPieces(target, PROBED), x.new_zeros(chains, target.dim)
    with torch.no_grad(), pyro_state(validate=False):
        if asks_for_numbers(lambda: cut.term(u, x, y, kwargs))[1]:
            return None
        return trace(lambda u, x, y: cut.term(u, x, y, kwargs), [u, x, y])


def is_sum(new: InPieces) -> bool:
    """Whether log density and gradient of all rows are those of the pieces.

    Of a few rows in unequal pieces, where one row weighs much in a mean; of rows in pieces of the very size; of all.
    """
    generator = torch.Generator().manual_seed(0)
    points = (torch.rand(3, new.dim, generator=generator, dtype=torch.float64) * 2 - 1).to(new.problem.tensor)
    (x, y), _ = new.problem.arguments()
    step = max(1, len(x) // FEW)
    try:
        for some, size in ((slice(None, FEW * step, step), CUT), (slice(2 * new.size + CUT), new.size)):
            together, apart = (_terms(new, points, x[some], y[some], rows) for rows in (len(x), size))
            points = points[torch.isfinite(together[0])]
            if not len(points) or not _close(apart, together):
                return False
        quarters = InPieces(new.whole, len(x) // 4)
        return _close(quarters.value_and_grad(points[:1]), new.whole.value_and_grad(points[:1]))
    except Exception:  # a model may refuse other numbers of rows, in words of its own
        return False


def _terms(new: InPieces, points: Tensor, x: Tensor, y: Tensor, size: int) -> Pair:
    """What rows x and y add, in pieces of which the last is smaller."""
    _, kwargs = new.problem.arguments()
    with pyro_state(validate=False), torch.no_grad():
        parts = [new.term(points, *rows, kwargs) for rows in zip(x.split(size), y.split(size), strict=True)]
    values, grads = zip(*parts, strict=True)
    return torch.stack(values).sum(0), torch.stack(grads).sum(0)


def _close(found: Pair, right: Pair) -> bool:
    """Whether values (chain,) are the same, and gradients (chain, dim) beside their largest number, to rounding."""
    room = CLOSE[right[1].dtype]
    largest = right[1].abs().amax(1, keepdim=True)
    same = torch.isclose(found[0], right[0], rtol=room, atol=room, equal_nan=True).all()
    slopes = ((found[1] - right[1]).abs() <= 10 * room * (1 + largest)) | ~torch.isfinite(right[1])
    return bool(same) and bool(slopes.all())
