"""Bayesian linear regression: the network with no hidden layer, whose posterior is known exactly.

    w    ~ N(0, prior_scale^2)         (d,), or (d, k) for matrix targets (outputs=k); other priors: zoo.core.priors
    b    ~ N(0, prior_scale^2)         () or (k,); left out by bias=False (x then carries its own ones)
    f_i  = x_i w + b                   (n,) or (n, k)
    y_i  ~ N(f_i, noise^2)             (n,) or (n, k)

noise is a known sd, or noise=None: noise ~ HalfNormal(1), (). The slides' beta is 1 / noise^2; their alpha, 1 /
prior_scale^2, may be given instead; prior_scale="learned" adds scale ~ HalfNormal(1), ().

Compare: f. With correlated inputs single weights are poorly determined even where f is not.

Exact (noise known): with X = [x, 1] and theta = (w, b)
A = I / prior_scale^2 + X^T X / noise^2,  theta | y ~ N(A^-1 X^T y / noise^2, A^-1),
y* | y ~ N(x* theta, x* A^-1 x*^T [epistemic] + noise^2 [aleatoric]).

Slide prints the regularised loss R = + sum log p + log p(W), with update W - eta (grad L - W / lambda)
(Ambrogioni); this computes R = - sum log p - log p(W), whose gradient is grad L + W / lambda.

Source: Thome, "Bayesian linear regression"; Bishop 2006, section 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

from zoo.core.checks import positive, switch, whole
from zoo.core.conjugate import Conjugate, linear_gaussian
from zoo.core.problem import Data, Exact
from zoo.core.scales import layer_scales, weight_sites
from zoo.data import labels, toy

prepare = labels.real


def data(seed: int = 0, n: int = 25, outputs: int = 1) -> Data:
    """A noisy line, noise .6."""
    return toy.line(seed, n, outputs=outputs)


def model(
    x: Tensor,
    y: Tensor | None = None,
    *,
    prior: str = "normal",
    prior_scale: float | str = 1.0,
    alpha: float | None = None,
    prior_options: Mapping[str, Any] | None = None,
    noise: float | None = 0.6,
    bias: bool = True,
    outputs: int = 1,
) -> Tensor:
    switch("bias", bias)
    k = () if whole("outputs", outputs) == 1 else (outputs,)
    weight = weight_sites(x, ("",), prior=prior, prior_scale=prior_scale, alpha=alpha, prior_options=prior_options)
    f = x @ weight("w", (x.shape[-1], *k))  # (d,) or (d, k)
    if bias:
        f = f + weight("b", k)  # () or (k,)
    f = pyro.deterministic("f", f)  # (n,) or (n, k)
    if noise is None:
        noise = pyro.sample("noise", dist.HalfNormal(x.new_ones(())))
    positive("noise", noise)
    with pyro.plate("data", x.shape[0]):
        pyro.sample("y", dist.Normal(f, noise).to_event(len(k)), obs=y)  # (n,) or (n, k)
    return f


def exact(data: Data, *, rows: int | None = None, **hyper: Any) -> Exact:
    """Posterior, predictive and log evidence after the first `rows` rows (None: all; 0: the prior)."""
    answer = _solve(data, rows, hyper)
    mean, covariance = answer.mean, answer.covariance
    d, k = data.x.shape[1], mean.shape[1]
    # Row by row, theta (d + 1, k) flattens to w, then b: the covariance of the whole is kron(A^-1, I_k).
    joint = dist.MultivariateNormal(mean.flatten(), torch.kron(covariance, torch.eye(k).to(mean)))
    posterior: dict[Any, Any] = {"w": _marginal(joint, slice(0, d * k))}
    if hyper.get("bias", True):
        b = _marginal(joint, slice(d * k, None))
        posterior["b"] = b if k > 1 else dist.Normal(b.loc[0], b.stddev[0])  # a scalar site, a scalar law
        posterior["w", "b"] = joint

    def predictive(x: Tensor) -> dist.Distribution:
        at = parts(data, x, rows=rows, **hyper)
        sd = (at["epistemic"] + at["aleatoric"]).sqrt()
        return dist.Normal(at["mean"], sd).to_event(sd.dim() - 1)

    return Exact(posterior, predictive, float(answer.log_evidence) + 0.0)


def parts(data: Data, x: Tensor, *, rows: int | None = None, **hyper: Any) -> dict[str, Tensor]:
    """Mean of y* at x, and its variance in two parts: epistemic (falls with more data) and aleatoric (stays).

    Args:
        data: The training data.
        x: New inputs (m, d).
        rows: Use the first rows only.
        **hyper: As for `model`; noise must be known.

    Returns:
        {"mean", "epistemic", "aleatoric"}, each (m,) or (m, k), float64.
    """
    answer = _solve(data, rows, hyper)
    design = _design(x, hyper)
    mean = design @ answer.mean  # (m, k)
    epistemic = (design @ answer.root).square().sum(-1, keepdim=True).expand_as(mean)
    found = {"mean": mean, "epistemic": epistemic, "aleatoric": torch.full_like(mean, _known(hyper) ** 2)}
    return found if mean.shape[1] > 1 else {name: value[:, 0] for name, value in found.items()}


def _marginal(joint: Any, block: slice) -> Any:
    return dist.MultivariateNormal(joint.loc[block], joint.covariance_matrix[block, block])


def _solve(data: Data, rows: int | None, hyper: dict[str, Any]) -> Conjugate:
    (scale,) = layer_scales(hyper.get("prior_scale", 1.0), hyper.get("alpha"), 1)
    noise, x, k = _known(hyper), _design(data.x, hyper), whole("outputs", hyper.get("outputs", 1))
    y = x.new_empty(0, k) if data.y is None else data.y.to(x).reshape(len(x), -1)[:rows]
    if y.shape[1] != k:
        raise ValueError(f"y has {y.shape[1]} columns and outputs={k}. Set outputs={y.shape[1]}.")
    return linear_gaussian(x[: len(y)], y, float(scale), noise)


def _design(x: Tensor, hyper: dict[str, Any]) -> Tensor:
    switch("bias", hyper.get("bias", True))
    x = x.to(torch.float64)
    return torch.cat([x, torch.ones_like(x[:, :1])], 1) if hyper.get("bias", True) else x


def _known(hyper: dict[str, Any]) -> float:
    noise, prior, scale = hyper.get("noise", 0.6), hyper.get("prior", "normal"), hyper.get("prior_scale", 1.0)
    if noise is None or prior != "normal" or isinstance(scale, str):
        raise ValueError(
            f"exact needs a known noise and prior='normal' of a known scale, got noise={noise}, prior={prior!r}, "
            f"prior_scale={scale!r}. Set noise=0.6, say, or use nuts."
        )
    positive("noise", noise)
    return float(noise)
