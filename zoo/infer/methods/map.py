"""Maximum a posteriori: the most probable point, from several starts.

    theta* = argmax_theta log p(y, theta) = argmax_theta [log p(y | theta) + log p(theta)]

in the space the priors are written in: the climb runs through unconstrained coordinates but adds no
Jacobian, so theta* is the mode of p(theta | y), as for AutoDelta and Stan's optimize. With a Normal prior
the second term is the penalty -sum theta^2 / (2 sigma^2), weight decay with 1 / sigma^2; with a Laplace
prior it is -sum |theta| / b, and some of theta* may be exactly 0.

Slide prints the point estimate as the argmax of a loss (Ambrogioni); this computes the argmin of the loss.

Source: Yandex, "Maximum a posteriori"; Ambrogioni, "Point estimates"; Nocedal & Wright 2006, section 7.2.
"""

from __future__ import annotations

import time
from typing import Any

from zoo.core.posterior import Posterior
from zoo.core.problem import Problem
from zoo.infer.descent import choose
from zoo.infer.interrupt import stoppable
from zoo.infer.lbfgs import ITERATIONS
from zoo.infer.modes import describe, find_modes
from zoo.infer.progress import progress as progress_bar


def fit(
    problem: Problem,
    *,
    restarts: int = 4,
    optimiser: Any = "lbfgs",
    optimiser_options: dict[str, Any] | None = None,
    steps: int = ITERATIONS,
    seed: int = 0,
    progress: bool | None = None,
    max_seconds: float | None = None,
) -> Posterior:
    """Maximises log p(y, theta).

    Args:
        problem: The problem; it is climbed in float64 whatever its dtype.
        restarts: Independent starts; the chain axis of the draws. All are kept.
        optimiser: "lbfgs"; or the name of an optimiser of torch.optim ("adam", "sgd", ...), or its class. Each
            restart is stepped on its own, with the full gradient, and its best point kept.
        optimiser_options: Of the torch class: {"lr": 0.05}, say; torch's own defaults where left out. A
            weight_decay there is a second prior: then theta* is the mode of neither.
        steps: At most so many. A restart stops before when it gains no more than 1e-10 (1 + |log p|) over ten
            iterations of lbfgs, over a hundred of another; and when it is on its way to infinity: the likelihood
            does not fall along the ray through its large weights, or a noise that goes to 0 keeps paying.
        seed: Restart r's start depends on (seed, r) only.
        progress: None: only in a terminal.
        max_seconds: End in order after this long.

    Returns:
        `Posterior` of kind "members": draws (restart, 1), each the optimum; stats lp; settings log_joint
        (one for each restart), best, space. Its outcome names sites whose optimum lies at the border of
        their support, and says so where the likelihood has no maximum (separable data under a flat prior).

    Raises:
        ValueError: For an unknown optimiser or option, with the nearest right one.
        TypeError: For an optimiser that is neither a name nor a class of torch.optim.
    """
    descend = choose(optimiser, {} if optimiser_options is None else optimiser_options)
    begun = time.perf_counter()
    with stoppable(max_seconds) as stop, progress_bar("map", steps, progress) as show:
        modes = find_modes(
            problem,
            jacobian=False,
            restarts=restarts,
            seed=seed,
            stop=stop,
            show=show,
            descend=descend,
            steps=steps,
        )
    target = modes.target
    values = target.constrain(modes.position)
    log_joint = modes.value.tolist()
    return Posterior(
        problem,
        "map",
        "members",
        {name: value.unsqueeze(1).to(problem.tensor.dtype) for name, value in values.items()},
        stats={"lp": target.log_prob(modes.position).unsqueeze(1)},
        seconds={"compile": 0.0, "warmup": time.perf_counter() - begun, "sample": 0.0},
        settings={
            "engine": target.engine,
            "space": "constrained: no Jacobian",
            "log_joint": log_joint,
            "best": max(range(restarts), key=lambda r: log_joint[r]),
        },
        outcome=describe(modes) or "ok",
    )
