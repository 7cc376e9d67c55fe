"""A fit as a table for the terminal: mean, sd and what judges the draws, a line a site."""

from __future__ import annotations

import numpy as np

from zoo.core import diagnostics
from zoo.core.posterior import Posterior
from zoo.core.quantities import predicted, quantities
from zoo.core.tensors import to_numpy

# A site of more numbers is shown as the range over them.
MOST_LINES = 10
HEAD = ("", "mean", "sd", "R-hat", "ESS")


def values(posterior: Posterior) -> dict[str, np.ndarray]:
    """{compared site: (chain, draw, ...)}; f and other outputs at the training inputs."""
    outputs = predicted(posterior)
    return {name: to_numpy((posterior.draws | outputs)[name].double()) for name in quantities(posterior, outputs)}


def _range(numbers: np.ndarray) -> str:
    ends = [f"{float(end):.4g}" for end in (numbers.min(), numbers.max())]
    return " .. ".join(dict.fromkeys(ends))


def _judged(draws: np.ndarray, kind: str) -> tuple[str, str]:
    """R-hat (the largest) and ESS (the smallest) where the method's draws are a Markov chain's."""
    if kind == "members":
        return "-", "-"
    if kind == "iid":
        return "-", f"{draws.shape[0] * draws.shape[1]}"
    return f"{float(diagnostics.rhat(draws).max()):.3f}", f"{float(diagnostics.ess(draws).min()):.0f}"


def _row(label: str, draws: np.ndarray, posterior: Posterior) -> tuple[str, ...]:
    weights = None if posterior.weights is None else posterior.weights.cpu().numpy()
    mean = diagnostics.weighted_mean(draws, weights)
    sd = np.sqrt(diagnostics.weighted_mean((draws - mean) ** 2, weights))
    # One draw has no spread to speak of.
    spread = _range(sd) if draws.shape[0] * draws.shape[1] > 1 else "-"
    return (label, _range(mean), spread, *_judged(draws, posterior.kind))


def rows(posterior: Posterior, draws_of: dict[str, np.ndarray]) -> list[tuple[str, ...]]:
    """The table's lines: one a number for small sites, one with ranges for big ones."""
    table = []
    for name, draws in draws_of.items():
        shape = draws.shape[2:]
        if draws[0, 0].size > MOST_LINES:
            table.append(_row(f"{name} {'x'.join(map(str, shape))}", draws, posterior))
            continue
        for index in np.ndindex(shape):
            label = name + (f"[{','.join(map(str, index))}]" if index else "")
            table.append(_row(label, draws[(..., *index)], posterior))
    return table


def summary(posterior: Posterior) -> str:
    """The table, the seconds, the outcome and, where it is known, the log evidence, ready to print."""
    numbers = values(posterior)
    table = [HEAD, *rows(posterior, numbers)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEAD))]
    pad = [str.ljust, *[str.rjust] * (len(HEAD) - 1)]
    lines = ["  ".join(f(c, w) for f, c, w in zip(pad, line, widths, strict=True)) for line in table]
    chains, draws = posterior.shape
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in posterior.seconds.items() if value)
    facts = [f"{posterior.problem.name}, {posterior.method}: {chains} x {draws} draws; {seconds}"]
    if isinstance(evidence := posterior.settings.get("log_evidence"), float):
        facts.append(f"log evidence {evidence:.6g}")
    return "\n".join([facts[0], *(line.rstrip() for line in lines), *facts[1:], *_outcome(posterior)])


def _outcome(posterior: Posterior) -> list[str]:
    """The outcome; of a chain that has not converged a line for each limit it fails, and R-hat of the weights."""
    failed, weights = (posterior.settings.get(name) for name in ("verdict", "weights"))
    lines = [f"outcome: {posterior.outcome}"]
    if failed and posterior.outcome.startswith("not converged"):
        lines = ["outcome: not converged", *(f"  {line}" for line in failed)]
    return lines + ([f"note: {weights}"] if weights else [])
