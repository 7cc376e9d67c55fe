"""`InPieces`: a density whose gradient is computed on some rows after others, which stay in the cache, and then summed.

    log pi(u) = D(u) + sum_k L_k(u),    L_k = sum_{i in S_k} log p(y_i | theta),
    D = log p(theta) + log |d theta / d u| + sum_{i in S_0} log p(y_i | theta)

S_1, S_2, ... are pieces of equally many rows, and S_0 what they leave: a row at least, a piece at most. The prior is in
D alone. Where the mean of f is sampled in place of an intercept, each row's f depends on others through that mean. So
the intercept itself is computed first, from the few rows whose mean it is: u = T(v), |du / dv| = 1; the pieces know u,
and the gradient is pulled back through T.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from zoo.core.handlers import LogProb, in_plate, pyro_state

from .centred import some_rows
from .density import Density

AT_ONCE = 16  # pieces: uncompiled, a model's own Python costs as much as a piece
Pair = tuple[Tensor, Tensor]
# terms(u (chain, dim), x, y, kwargs) -> sum_k L_k (chain,) and its gradient (chain, dim), of all rows x and y.
Terms = Callable[[Tensor, Tensor, Tensor, dict[str, Any]], Pair]


class InPieces(Density):
    """A density whose gradient of all rows is summed over pieces; everything else is as it was.

    Attributes:
        whole: The density itself.
        size: Rows of a piece.
    """

    def __init__(self, whole: Density, size: int) -> None:
        vars(self).update(vars(whole))
        self.whole, self.size = whole, size

    def value_and_grad(self, position: Tensor, rows: Tensor | None = None, jacobian: bool = True) -> Pair:
        """As `Density.value_and_grad`; of all rows, piece by piece."""
        if rows is not None or not jacobian:
            return super().value_and_grad(position, rows, jacobian)
        self._check(position)
        with pyro_state(validate=False), torch.no_grad():
            return self.gradient(position, self.problem.arguments())

    def gradient(self, position: Tensor, arguments: Any, terms: Terms | None = None) -> Pair:
        """log pi (chain,) in float64 and its gradient (chain, dim); `terms` computes what the pieces add.

        The caller holds `pyro_state(validate=False)`, without gradients.
        """
        (x, y), kwargs = arguments
        cut = in_whole_pieces(len(x), self.size)
        plain = self.whole.with_intercept(None)
        rest = (x[cut:], y[cut:]), kwargs
        u, back = self._uncentred(position, arguments)
        first = torch.func.grad_and_value(lambda at: plain.log_density(at, True, rest))
        grad, value = torch.func.vmap(first)(u)
        more, slope = (terms or self.terms)(u, x, y, kwargs)
        return value + more, back(grad + slope)

    def terms(self, u: Tensor, x: Tensor, y: Tensor, kwargs: dict[str, Any]) -> Pair:
        """sum_k L_k and its gradient, uncompiled."""
        value, grad = u.new_zeros(len(u), dtype=torch.float64), torch.zeros_like(u, dtype=torch.float64)
        for some_x, some_y in cut_up(x, y, self.size, AT_ONCE):
            more, slope = self.term(u, some_x, some_y, kwargs)
            value, grad = value + more, grad + slope
        return value, grad.to(u)

    def term(self, u: Tensor, x: Tensor, y: Tensor, kwargs: dict[str, Any]) -> Pair:
        """L_k (chain,) in float64 and its gradient (chain, dim), of the rows x and y."""
        grad, value = torch.func.vmap(torch.func.grad_and_value(lambda at: self._data_term(at, x, y, kwargs)))(u)
        return value, grad

    def _data_term(self, u: Tensor, x: Tensor, y: Tensor, kwargs: dict[str, Any]) -> Tensor:
        """sum_i log p(y_i | theta) / T of the rows x and y, at one position (dim,)."""
        plain = self.whole.with_intercept(None)
        with InPlate(self.problem.names["plate"]) as log_prob, plain.at(u):
            self.problem.model(x, y, **kwargs)
        return log_prob.total / self.temperature

    def _uncentred(self, position: Tensor, arguments: Any) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """u = T(v) (chain, dim), the intercept itself in place of the mean of f; and gradients by u -> those by v."""
        if self.intercept is None:
            return position, lambda grad: grad
        (x, y), kwargs = arguments
        some, site = (some_rows(x), some_rows(y)), self.intercept.site

        def u(v: Tensor) -> Tensor:
            with self.at(v) as point:
                self.problem.model(*some, **kwargs)
            parts = self.split(v) | {site: point.values[site]}
            return torch.cat([part.reshape(-1) for part in parts.values()])

        both: Any = torch.func.vjp(torch.func.vmap(u), position)
        found, pull = both
        return found, lambda grad: pull(grad)[0]


def whole(density: Density) -> Density:
    """The density of all rows at once, of one in pieces; any other as it is."""
    return density.whole if isinstance(density, InPieces) else density


class InPlate(LogProb):
    """Adds up the log probabilities of what stands inside the data plate."""

    def _pyro_post_sample(self, msg: Any) -> None:
        if in_plate(msg, self.plate):
            super()._pyro_post_sample(msg)


def in_whole_pieces(rows: int, size: int) -> int:
    """How many of the rows lie in whole pieces of `size`, where at least one is left over."""
    return (rows - 1) // size * size


def cut_up(x: Tensor, y: Tensor, size: int, at_once: int = 1) -> Iterator[Pair]:
    """The whole pieces (size, ...) of x and of y, or several at once."""
    cut = in_whole_pieces(len(x), size)
    return zip(x[:cut].split(at_once * size), y[:cut].split(at_once * size), strict=True)
