"""Whether an ELBO curve has come to rest: the last tenth of its steps against the tenth before."""

from __future__ import annotations

from torch import Tensor

ERRORS = 2.0
# A difference below this is nothing, in nats: a deterministic ELBO has no noise to hide its last digits.
NOTHING = 1e-3
LEAST = 20  # steps in a tenth


def at_rest(elbo: Tensor) -> bool:
    """Whether the means of the last 10 % of steps and of the 10 % before lie within 2 standard errors.

    Successive estimates share their parameters, so each tenth is cut into batches of about the square root of
    its length and the standard error comes from the means of those.

    Args:
        elbo: One estimate a step, (step,). Fewer than 200 steps are never at rest: a tenth of them is too noisy to
            tell a climb from its end.
    """
    tenth = len(elbo) // 10
    if tenth < LEAST:
        return False
    before, after = elbo[-2 * tenth : -tenth], elbo[-tenth:]
    error = float((_variance_of_mean(before) + _variance_of_mean(after)).sqrt())
    # float32 parts of a large ELBO cannot be told apart below their own rounding.
    nothing = NOTHING + 1e-7 * float(after.abs().mean())
    return abs(float(after.mean() - before.mean())) <= max(ERRORS * error, nothing)


def _variance_of_mean(values: Tensor) -> Tensor:
    length = max(1, int(len(values) ** 0.5))
    count = len(values) // length
    means = values[: count * length].reshape(count, length).mean(1)
    return means.var() / count
