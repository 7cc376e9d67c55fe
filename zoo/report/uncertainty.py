"""`uncertainty`: how much of what is not known about y is noise, and how much is lack of data.

    var y = E_theta[var(y | theta)]  +  var_theta E[y | theta]              aleatoric + epistemic
    H(E_theta p)  =  E_theta H(p)  +  I(y, theta)                           total = expected + mutual information

More rows shrink the second part only.

Source: Leal-Taixe, "Aleatoric and epistemic uncertainty"; Kendall & Gal 2017; Depeweg, Hernandez-Lobato, Doshi-Velez
    & Udluft 2018.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from zoo.core.layout import layout
from zoo.core.posterior import Posterior, check_posteriors
from zoo.core.tensors import to_numpy

from .table import significant, wrap

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, repr=False)
class Uncertainty:
    """What is uncertain about y at each input, in original units; of classes also in nats.

    Args:
        aleatoric: E var(y | draw), (m,) or (m, k).
        epistemic: var E[y | draw], of the same shape; 0 where there is but one point estimate.
        total_entropy: H of the averaged class probabilities (m,), or None where y is no class label.
        expected_entropy: Average entropy of a draw's class probabilities (m,), or None.
        mutual_information: Their difference (m,): what the draws disagree about; or None.
        variation_ratio: 1 - the largest averaged class probability (m,), or None.
    """

    aleatoric: Array
    epistemic: Array
    total_entropy: Array | None = None
    expected_entropy: Array | None = None
    mutual_information: Array | None = None
    variation_ratio: Array | None = None

    @property
    def variance(self) -> Array:
        """aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    def __str__(self) -> str:
        found = {f.name.replace("_", " "): getattr(self, f.name) for f in dataclasses.fields(self)}
        parts = [f"{name} {significant(float(v.mean()))}" for name, v in found.items() if v is not None]
        return wrap(f"mean over {len(self.aleatoric)} inputs: {', '.join(parts)}")

    __repr__ = __str__


def entropies(probabilities: ArrayLike, weights: ArrayLike | None = None) -> dict[str, Array]:
    """Total and expected entropy in nats, mutual information and variation ratio of members' class probabilities.

        p = sum_s w_s p_s
        total = -sum_c p_c log p_c,  expected = -sum_s w_s sum_c p_sc log p_sc,  ratio = 1 - max_c p_c

    Args:
        probabilities: (S, ..., classes).
        weights: (S,), or None for equal ones.

    Returns:
        {name: (...)}.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    share = _share(weights, len(p))
    mean = np.tensordot(share, p, 1)
    total, expected = entr(mean).sum(-1), np.tensordot(share, entr(p).sum(-1), 1)
    return {
        "total_entropy": total,
        "expected_entropy": expected,
        "mutual_information": total - expected,
        "variation_ratio": 1 - mean.max(-1),
    }


def _share(weights: ArrayLike | None, count: int) -> Array:
    share = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64).reshape(-1)
    return share / share.sum()


def uncertainty(posterior: Posterior, x: Any = None, *, draws: int | None = None) -> Uncertainty:
    """Aleatoric and epistemic uncertainty of y at new inputs.

    The epistemic variance of S equally weighted draws is divided by S - 1: unbiased where they are independent.

    Args:
        posterior: Any method's result.
        x: Inputs as for `Posterior.predict`; None: the training inputs.
        draws: Use about so many draws; None: all.

    Returns:
        `Uncertainty`.

    Raises:
        TypeError: For what is no posterior.
        ValueError: For a model whose y has no mean in closed form, and for a single draw of a distribution.
    """
    check_posteriors("uncertainty", posterior)
    predicted = posterior.predict(x, draws=draws if posterior.weights is None else None)
    if "mean" not in predicted:
        raise ValueError(
            f"uncertainty needs the mean and variance of y given a draw; '{posterior.problem.name}' predicts "
            f"{', '.join(predicted)} only. Take the spread of predict()['y']."
        )
    mean, var = (_flat(predicted[name]) for name in ("mean", "var"))
    if len(mean) == 1 and posterior.kind != "members":
        raise ValueError("uncertainty needs at least 2 draws, got 1, which has no spread. Run with draws=1000.")
    weights = None if posterior.weights is None else to_numpy(posterior.weights)
    share = _share(weights, len(mean))
    centred = mean - np.tensordot(share, mean, 1)
    epistemic = np.tensordot(share, centred**2, 1)
    if weights is None and len(mean) > 1:
        epistemic = epistemic * len(mean) / (len(mean) - 1)
    found = Uncertainty(np.tensordot(share, var, 1), epistemic)
    if not layout(posterior).classifies:
        return found
    two = layout(posterior).family == "Bernoulli"
    return dataclasses.replace(found, **entropies(np.stack([1 - mean, mean], -1) if two else mean, weights))


def _flat(value: Any) -> Array:
    """(chain, draw, ...) -> (S, ...) in float64."""
    array = to_numpy(value).astype(np.float64)
    return array.reshape(-1, *array.shape[2:])
