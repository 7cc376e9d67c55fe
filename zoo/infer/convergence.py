"""Whether an ELBO curve has come to rest: the last sixth of its steps against the sixth before.

A sixth, because the learning rate falls over the last half: in the last tenth it is so small that any curve lies
still. The lecture's network under the mean field, 5,000 steps: tenths differ by less than 2 standard errors in 5
of 8 restarts, sixths by 7 to 13 nats in all of them; 20,000 steps gain 24 nats, 80,000 another 14.
"""

from __future__ import annotations

from torch import Tensor

ERRORS = 2.0
LEAST = 200  # steps: fewer are too noisy to tell a climb from its end
# A deterministic ELBO has no noise to hide its last digits: a difference below this is nothing, in nats.
NOTHING = 1e-3
# What Adam's jitter costs is won back as its rate falls, and that is no climb: it stays below the spread of single
# estimates and below this, in nats (.02 to .3 for Gaussian guides of 2 to 25 coordinates at their optimum).
JITTER = 0.5


def at_rest(elbo: Tensor, pieces: int = 6) -> bool:
    """Whether the means of the last piece of the steps and of the one before differ by nothing.

        |after - before| <= max(2 standard errors, min(JITTER, 2 sd) + NOTHING),    sd of single estimates

    Successive estimates share their parameters, so each piece is cut into batches of about the square root of
    its length and the standard error comes from the means of those.

    Args:
        elbo: One estimate a step, (step,). Fewer than 200 steps are never at rest.
        pieces: The length of a piece is that of the curve divided by this.
    """
    if len(elbo) < LEAST:
        return False
    length = len(elbo) // pieces
    before, after = elbo[-2 * length : -length], elbo[-length:]
    error = float((_variance_of_mean(before) + _variance_of_mean(after)).sqrt())
    # float32 parts of a large ELBO cannot be told apart below their own rounding.
    nothing = NOTHING + 1e-7 * float(after.abs().mean()) + min(JITTER, 2 * float(after.std()))
    return abs(float(after.mean() - before.mean())) <= max(ERRORS * error, nothing)


def _variance_of_mean(values: Tensor) -> Tensor:
    length = max(1, int(len(values) ** 0.5))
    count = len(values) // length
    means = values[: count * length].reshape(count, length).mean(1)
    return means.var() / count
