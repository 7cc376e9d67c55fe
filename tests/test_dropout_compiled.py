"""Dropout compiled is dropout uncompiled: the same steps of svi, with one mask a draw and with one a row."""

from __future__ import annotations

import pytest
import torch

import zoo

pytestmark = pytest.mark.slow
GUIDES = [
    ("bernoulli_dropout", {"mask": "row"}),
    ("bernoulli_dropout", {"mask": "draw"}),
    ("gaussian_dropout", {"noise": "unit"}),
    ("concrete_dropout", {}),
]


def last(engine: str, guide: str, options: dict, batch_size: int | None = 20, seed: int = 0) -> zoo.Posterior:
    problem = zoo.load("mc_dropout", zoo.mc_dropout.data(n=50), hidden=8, noise=0.3).to(dtype=torch.float64)
    return zoo.run(
        problem, "svi", guide=guide, guide_options={"rate": 0.2, **options}, steps=60, lr=0.02, draws=20,
        batch_size=batch_size, engine=engine, seed=seed,
    )  # fmt: skip


def apart(a: zoo.Posterior, b: zoo.Posterior) -> float:
    """The largest difference of the ELBO's curve and of the draws."""
    found = [(a.history["elbo"] - b.history["elbo"]).abs().max() / a.history["elbo"].abs().max()]
    return float(torch.stack([*found, *((a.draws[n] - b.draws[n]).abs().max() for n in ("w1", "w2"))]).max())


@pytest.mark.parametrize(("guide", "options"), GUIDES, ids=["row", "draw", "gaussian", "concrete"])
def test_compiled_is_eager(guide, options) -> None:
    """To 1e-8 after 60 steps on batches. Twin: the same with another seed."""
    compiled, eager = (last(engine, guide, options) for engine in ("compiled", "eager"))
    assert compiled.settings["engine"] == "compiled"
    assert eager.settings["engine"] == "eager"
    assert apart(compiled, eager) < 1e-8
    assert apart(compiled, last("eager", guide, options, seed=1)) > 1e-2


def test_masks_of_rows_and_of_draws_are_not_the_same() -> None:
    """They begin at the same point and part ways."""
    row, draw = (last("eager", "bernoulli_dropout", {"mask": mask}, None) for mask in ("row", "draw"))
    assert apart(row, draw) > 1e-2
