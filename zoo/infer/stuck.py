"""Chains that stand still: said while they run, not only in the result."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from zoo.core.tensors import to_numpy

log = logging.getLogger("zoo")
SAME = 20
WINDOW = 50
LEAST_ACCEPT = 0.01
BY_CHANCE = 4e-8
IDLE = 0.9
NAMED = 8


def patience(target: float | None) -> int:
    """Iterations at one point that make a chain stuck: 20, more where refusals are usual (64 at 23 % accepted).

    So many refusals in a row happen by chance with probability 4e-8.
    """
    return SAME if target is None else max(SAME, math.ceil(math.log(BY_CHANCE) / math.log1p(-target)))


@dataclasses.dataclass
class Watch:
    """Looks for chains at the same position for `same` iterations, or under 1 % accepted over 50 of them.

    Attributes:
        method: Named in the message.
        same: See `patience`.
        awake: Whether it looks: not while the first step sizes are tried.
        said: Chains already named.
    """

    method: str
    same: int = SAME
    awake: bool = False
    said: set[int] = dataclasses.field(default_factory=set)
    _last: NDArray[Any] | None = None
    _same: NDArray[Any] | None = None
    _accept: NDArray[Any] | None = None

    def see(self, positions: Tensor, accept: Tensor) -> None:
        """The next iterations of all chains: positions (chain, iteration, dim), accept (chain, iteration)."""
        if not self.awake or not positions.shape[1]:
            return
        # numpy's, which does little with few numbers in a third of the time: warm-up asks at every stride.
        here, accepted = to_numpy(positions), to_numpy(accept)
        last = here[:, 0] if self._last is None else self._last
        same = np.zeros(len(here), dtype=np.int64) if self._same is None else self._same
        longest = same
        for now in here.swapaxes(0, 1):
            same, last = np.where((now == last).all(-1), same + 1, 0), now
            longest = np.maximum(longest, same)
        past = accepted if self._accept is None else np.concatenate([self._accept, accepted], 1)
        past = past[:, -WINDOW:]
        self._last, self._same, self._accept = last.copy(), same, past.copy()
        rare = (past.sum(1) < LEAST_ACCEPT * WINDOW) & (past.shape[1] == WINDOW)
        self._say((longest >= self.same) | rare)

    def _say(self, stuck: NDArray[np.bool_]) -> None:
        new = [c for c in stuck.nonzero()[0].tolist() if c not in self.said]
        if new:
            self.said.update(new)
            names = ", ".join(map(str, new[:NAMED]))
            names += f" and {len(new) - NAMED} more" if len(new) > NAMED else ""
            # Steps below the numbers' own spacing are all accepted and lead nowhere.
            idle = self._accept is not None and float(self._accept[new].mean()) > IDLE
            log.warning(
                "%s: chain %s does not move (%d iterations at one point, or under 1 %% accepted over %d): %s "
                "step_size, raise warmup, or start elsewhere (init='map').",
                self.method, names, self.same, WINDOW, "raise" if idle else "lower",
            )  # fmt: skip
