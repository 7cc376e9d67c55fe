"""Whether an ELBO curve has come to rest: at the full rate, in the middle, and as the rate falls, at the end.

The learning rate falls over the last half, and in the last tenth any curve lies still; so the end is judged over
sixths, and the middle as well. The lecture's network under the mean field, 5,000 steps, where 20,000 gain another
24 nats and 80,000 a further 14: the last tenths lie still in 6 of 8 restarts, but the ELBO rises by 5 to 9 nats at
the full rate, by more than 2 standard errors in 6 of 8.
"""

from __future__ import annotations

from torch import Tensor

ERRORS = 2.0
LEAST = 200  # steps: fewer are too noisy to tell a climb from its end
# A deterministic ELBO has no noise to hide its last digits: a difference below this is nothing, in nats.
NOTHING = 1e-3
# What Adam's jitter costs is won back as its rate falls, and that is no climb: it stays below the spread of single
# estimates and below this, in nats (.02 to .3 for Gaussian guides of 2 to 25 coordinates at their optimum), or this
# for each parameter of q (a net of 121 weights, 4,000 steps: 1.4 nats between the sixths; 40,000 gain under .1).
JITTER = 0.5
JITTER_EACH = 0.01


def at_rest(elbo: Tensor, pieces: int = 6, parameters: int = 0) -> bool:
    """Whether the means of the last piece of the steps and of the one before differ by nothing.

        |after - before| <= max(2 standard errors, min(jitter, 2 sd) + NOTHING),    sd of single estimates
        jitter = max(JITTER, JITTER_EACH parameters)

    Successive estimates share their parameters, so each piece is cut into batches of about the square root of
    its length and the standard error comes from the means of those.

    Args:
        elbo: One estimate a step, (step,). Fewer than 200 steps are never at rest.
        pieces: The length of a piece is that of the curve divided by this.
        parameters: Of q.
    """
    if len(elbo) < LEAST:
        return False
    length = len(elbo) // pieces
    before, after = elbo[-2 * length : -length], elbo[-length:]
    error = float((_variance_of_mean(before) + _variance_of_mean(after)).sqrt())
    jitter = max(JITTER, JITTER_EACH * parameters)
    # float32 parts of a large ELBO cannot be told apart below their own rounding.
    nothing = NOTHING + 1e-7 * float(after.abs().mean()) + min(jitter, 2 * float(after.std()))
    return abs(float(after.mean() - before.mean())) <= max(ERRORS * error, nothing)


def still_climbing(elbo: Tensor) -> bool:
    """Whether the ELBO rose over the second quarter of the steps, the last at the full rate: its halves compared.

    after - before > max(2 standard errors, min(JITTER, 2 sd) + NOTHING). No falling rate lifts the curve there: a
    rise is a climb that the second half of the steps may have cut short.
    """
    if len(elbo) < LEAST:
        return True
    eighth = len(elbo) // 8
    before, after = elbo[2 * eighth : 3 * eighth], elbo[3 * eighth : 4 * eighth]
    error = float((_variance_of_mean(before) + _variance_of_mean(after)).sqrt())
    nothing = NOTHING + 1e-7 * float(after.abs().mean()) + min(JITTER, 2 * float(after.std()))
    return float(after.mean() - before.mean()) > max(ERRORS * error, nothing)


def _variance_of_mean(values: Tensor) -> Tensor:
    length = max(1, int(len(values) ** 0.5))
    count = len(values) // length
    means = values[: count * length].reshape(count, length).mean(1)
    return means.var() / count
