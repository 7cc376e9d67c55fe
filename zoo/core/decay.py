"""`weight_decay`: which weight decay makes training with dropout climb the objective of `bernoulli_dropout`.

With W = diag(z) M, prior w ~ N(0, 1 / l^2), y ~ N(f, 1 / tau), n rows and B of them in a batch:

    L = 1 / (2 B) sum |y - f|^2 + lambda |M|^2 = -ELBO / (n tau) + constant,    lambda = (1 - p) l^2 / (2 n tau)
"""

from __future__ import annotations

from typing import Any

from .checks import positive, switch, whole

LOSSES = ("half_squared", "squared", "nll")


def weight_decay(
    length_scale: float, tau: float, p: float, n: int, *, loss: str = "half_squared", inverted: bool = False
) -> float:
    """lambda of the penalty lambda |M|^2 that belongs to a prior, a noise, a dropout rate and a number of rows.

    half_squared    1 / (2 B) sum |y - f|^2      lambda = (1 - p) l^2 / (2 n tau)
    squared         1 / B sum |y - f|^2          twice that
    nll             -1 / B sum log p(y | f)      (1 - p) l^2 / (2 n): classes, with tau = 1
    inverted        on V = (1 - p) M, the weights of a network whose masks are scaled by 1 / (1 - p), as those of
                    torch.nn.Dropout are: lambda / (1 - p)^2, so l^2 / (2 n tau (1 - p)) for half_squared

    The gradient of lambda |M|^2 is 2 lambda M: torch's optimisers, whose `weight_decay` w adds w M, take 2 lambda.
    A bias, which has no mask, takes p = 0.

    Slide prints -norm^2 = (1 / tau) log p and d KL = d n tau lambda for the loss 1 / B sum |y - f|^2 (Thome); this
    computes norm^2 = -(2 / tau) log p + constant: the factor is n tau / 2 for that loss, n tau for half of it.

    Args:
        length_scale: l, the inverse of the prior's sd.
        tau: Precision 1 / noise^2 of y given f.
        p: Probability to drop, 0 <= p < 1.
        n: Rows of the data, not of a batch.
        loss: "half_squared", "squared" or "nll".
        inverted: Whether masks are scaled up by 1 / (1 - p).

    Raises:
        ValueError: For p outside [0, 1), what is no positive number, an n that is not whole, an unknown loss, and tau
            with "nll".

    Source: Thome, "MC dropout: the proof"; Gal & Ghahramani 2016, eq. 7.
    """
    length_scale, tau, p = _number("length_scale", length_scale), _number("tau", tau), _rate(p)
    n = whole("n", n)
    switch("inverted", inverted)
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}. Leave it out for half_squared.")
    if loss == "nll" and tau != 1:
        raise ValueError(f"loss='nll' holds the noise already, got tau={tau!r}. Set tau=1.")
    penalty = (1 - p) * length_scale**2 / (2 * n * tau)
    return penalty * (2 if loss == "squared" else 1) / ((1 - p) ** 2 if inverted else 1)


def _plain(value: Any) -> Any:
    """Python's own value of a number of numpy's or torch's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _number(name: str, value: Any) -> float:
    positive(name, _plain(value))
    return float(value)


def _rate(value: Any) -> float:
    plain = _plain(value)
    if not isinstance(plain, (int, float)) or isinstance(plain, bool) or not 0 <= plain < 1:
        raise ValueError(f"p is the probability to drop, 0 <= p < 1, got {value!r}. Call once for each layer.")
    return float(plain)
