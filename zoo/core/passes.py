"""The predictive distribution of T stochastic passes f_1 ... f_T of a network, y = f + N(0, I / tau).

    E y = (1 / T) sum f_t
    Cov y = I / tau + (T / (T - 1)) [ (1 / T) sum f_t f_t^T - (1 / T) sum f_t (1 / T) sum f_t^T ]
    log p(y) = logsumexp_t log N(y | f_t, I / tau) - log T

Slide prints 1 / T before (sum f)^T (sum f) and calls the estimate unbiased (Thome); this computes 1 / T^2, and it is
T / (T - 1) that makes it unbiased.

Source: Thome, "MC dropout: predictive mean and variance"; Gal & Ghahramani 2016, propositions C and D.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

COUNTS = (1, 2, 5, 10, 20, 50, 100)


def moments_of_passes(f: Tensor, tau: float, *, unbiased: bool = True) -> tuple[Tensor, Tensor]:
    """Mean and variance of y from T passes.

    Args:
        f: Passes (T, m), or (T, m, D) for D outputs.
        tau: Precision of y given f.
        unbiased: Divide by T - 1; else by T, which is too small by (T - 1) / T on average.

    Returns:
        Mean (m,) and variance (m,), or (m, D) and covariance (m, D, D).

    Raises:
        ValueError: For one pass, which has no variance, and a tau that is not positive.
    """
    _check(f, tau)
    passes = f.shape[0]
    if passes < 2:
        raise ValueError(f"a variance needs at least 2 passes, got {passes}. Run more: draws=100.")
    mean = f.mean(0)
    centred = f - mean  # the same as the difference of squares, without its cancellation
    count = passes - 1 if unbiased else passes
    if f.dim() == 2:
        return mean, centred.square().sum(0) / count + 1 / tau
    spread = torch.einsum("tmi,tmj->mij", centred, centred) / count
    return mean, spread + torch.eye(f.shape[2], dtype=f.dtype, device=f.device) / tau


def log_likelihood_of_passes(f: Tensor, y: Tensor, tau: float) -> Tensor:
    """log p(y_i) of each row, its probability averaged over passes.

    Args:
        f: Passes (T, m) or (T, m, D).
        y: Targets (m,) or (m, D).
        tau: Precision of y given f.

    Returns:
        (m,).
    """
    _check(f, tau)
    square = (y - f).square()
    square, outputs = (square, 1) if f.dim() == 2 else (square.sum(-1), f.shape[2])
    terms = outputs / 2 * math.log(tau / (2 * math.pi)) - tau / 2 * square
    return torch.logsumexp(terms, 0) - math.log(f.shape[0])


def scores_by_passes(f: Tensor, y: Tensor, tau: float, counts: Sequence[int] = COUNTS) -> Tensor:
    """RMSE and log likelihood of predictions that average T passes, for T = 1, 2, 5, ...: the lecture's curve.

    RMSE(T)^2 = mean over groups and rows of |mean of T passes - y|^2,    whose mean is bias^2 + variance / T

    The passes are cut into groups of T; what is left over is not used. A network whose weights are averaged instead
    (no masks, weights times 1 - p) is the straight line to draw beside it.

    Args:
        f: Passes (S, m) or (S, m, D), in the units of y.
        y: Targets (m,) or (m, D).
        tau: Precision of y given f.
        counts: Numbers of passes T, each at most S.

    Returns:
        (len(counts), 2): RMSE and log likelihood a row.

    Raises:
        ValueError: For a T that is not among 1 ... S.

    Source: Leal-Taixe, "MC dropout: test error against the number of passes"; Gal & Ghahramani 2015.
    """
    _check(f, tau)
    _check_counts(counts, len(f))
    found = []
    for count in counts:
        groups = f[: len(f) // count * count].reshape(-1, count, *f.shape[1:])
        square = (groups.mean(1) - y).square().mean()
        log_lik = torch.stack([log_likelihood_of_passes(group, y, tau).mean() for group in groups]).mean()
        found.append(torch.stack([square.sqrt(), log_lik]))
    return torch.stack(found)


def class_scores_by_passes(probs: Tensor, y: Tensor, counts: Sequence[int] = COUNTS) -> Tensor:
    """Error and log likelihood of class probabilities that are averaged over T passes, for T = 1, 2, 5, ...

    error(T) = share of rows whose largest (1 / T) sum_t p_t is another class
    log likelihood(T) = mean over rows of log (1 / T) sum_t p_t(y_i)

    Groups of T as in `scores_by_passes`.

    Args:
        probs: Probabilities of each pass (S, m, k).
        y: Labels (m,) of 0 ... k - 1.
        counts: Numbers of passes T, each at most S.

    Returns:
        (len(counts), 2): error and log likelihood a row.

    Raises:
        ValueError: For another shape, and a T that is not among 1 ... S.

    Source: Gal, "LeNet on MNIST: test error, dropout in all layers or inner ones"; Gal & Ghahramani 2015.
    """
    if probs.dim() != 3:
        raise ValueError(
            f"passes must be probabilities (T, m, k), got {tuple(probs.shape)}. Give fit.predict's mean[0]."
        )
    _check_counts(counts, len(probs))
    found, rows = [], torch.arange(len(y), device=y.device)
    for count in counts:
        mean = probs[: len(probs) // count * count].reshape(-1, count, *probs.shape[1:]).mean(1)
        error = (mean.argmax(-1) != y).to(probs.dtype).mean()
        found.append(torch.stack([error, mean[:, rows, y].log().mean()]))
    return torch.stack(found)


def _check_counts(counts: Sequence[int], passes: int) -> None:
    if wrong := [count for count in counts if not 1 <= count <= passes]:
        raise ValueError(f"counts must lie between 1 and the {passes} passes, got {wrong}. Run more: draws=1000.")


def _check(f: Tensor, tau: float) -> None:
    if not isinstance(f, Tensor) or not f.is_floating_point():
        raise ValueError(f"passes must be a tensor of real numbers, got {getattr(f, 'dtype', type(f).__name__)}.")
    if f.dim() not in (2, 3):
        raise ValueError(f"passes must be (T, m) or (T, m, D), got {tuple(f.shape)}. For one row: f[:, None].")
    number = isinstance(tau, (int, float, Tensor)) and not isinstance(tau, bool)
    if not number or not tau > 0:
        raise ValueError(f"tau must be a positive precision, got {tau!r}. It is 1 / noise^2.")
