"""What a network's output means: a mean, a logit or a score for each class.

classes = 0    y ~ N(f, noise^2)
classes = 2    y ~ Bernoulli(sigmoid(f))
classes > 2    y ~ Categorical(softmax(f))
"""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
from torch import Tensor

from .checks import positive, whole


def outputs_of(classes: int) -> int:
    """How many outputs a network needs: one, or one a class where there are more than two.

    Raises:
        ValueError: For one class, and for what is no whole number.
    """
    if classes != 0 and whole("classes", classes) == 1:
        raise ValueError("classes must be 0 for a regression, or at least 2, got 1. Leave it out for a regression.")
    return classes if classes > 2 else 1


def outcome(f: Tensor, noise: Any, classes: int) -> Any:
    """The distribution of y given f: (n,), or (n, classes) scores.

    Raises:
        ValueError: For a noise of a regression that is no positive number.
    """
    if classes == 0:
        positive("noise", noise)
        return dist.Normal(f, noise)
    return dist.Bernoulli(logits=f) if classes == 2 else dist.Categorical(logits=f)
