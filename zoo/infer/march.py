"""`Run`: the chains of one run and how far they are; `advance` moves them on, `collect` keeps what they draw."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .density import Density
from .engine import Drive
from .kernel import Draw, Setup
from .mass import Mass
from .noise import BLOCK, noise_block
from .stuck import Watch
from .subsample import batch_size

Stats = dict[str, Tensor]
Stop = Callable[[], str]
Show = Callable[..., None]


@dataclasses.dataclass
class Run:
    """The chains of one run: what `advance` moves on.

    Attributes:
        density, kernel, setup, seed: What is run.
        state: The kernel's state.
        mass: The mass matrix.
        tuned: {"step_size": ..., the kernel's own numbers}.
        drive: How steps are driven, see `zoo.infer.engine`.
        watch: Looks for chains that stand still.
        rows: n, where the kernel works on minibatches of the n rows.
        iteration: Iterations completed.
        noise: The present block of noise.
        sampling: The iteration at which sampling began; None in warm-up.
    """

    density: Density
    kernel: Any
    setup: Setup
    seed: int
    state: Any
    mass: Mass
    tuned: dict[str, float]
    watch: Watch
    drive: Drive | None = None
    rows: int = 0
    iteration: int = 0
    noise: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    sampling: int | None = None

    @property
    def share(self) -> float:
        """M / n of a kernel on minibatches, else 1."""
        size = batch_size(self.setup.noise)
        return size / self.rows if size else 1.0

    def fill_noise(self) -> None:
        """The block of noise that belongs to the current iteration; counts start anew."""
        completed = self.state.completed
        self.noise = noise_block(
            self.setup.noise, seed=self.seed, block=self.iteration // BLOCK, chains=len(completed),
            like=self.mass.scale, n=self.rows,
        )  # fmt: skip
        if "clock" in self.tuned:
            self.tuned["clock"] = 0 if self.sampling is None else self.iteration - self.sampling
        self.state = self.state._replace(completed=torch.zeros_like(completed))


def at_start(kernel: Any, density: Density, at: Tensor, own: dict[str, Any]) -> tuple[Setup, Any]:
    """The kernel's setup, its constants where the positions `at` (chain, dim) are, and its state there."""
    setup = kernel.setup(density.dim, **own)
    setup = setup._replace(constants={name: value.to(at.device) for name, value in setup.constants.items()})
    return setup, kernel.init(at, *density.value_and_grad(at), setup.constants)


def advance(run: Run, iterations: int, stop: Stop) -> tuple[Tensor, Stats, int]:
    """Runs every chain `iterations` further, all within one block of noise.

    Returns:
        Positions (chain, iterations, dim), stats (chain, iterations), and how many of them every chain completed:
        all, unless `stop` said to end early.
    """
    offset, chains, like = run.iteration % BLOCK, len(run.state.completed), run.mass.scale
    if offset == 0:
        run.fill_noise()
    positions = like.new_zeros(chains, iterations, run.density.dim)
    stats = {name: like.new_zeros(chains, iterations, dtype=torch.float64) for name in run.kernel.STATS}
    stats["accept"] = like.new_zeros(chains, iterations, dtype=torch.float64)
    assert run.drive is not None
    run.state = run.drive(
        run.state,
        run.noise,
        {name: like.new_tensor(value) for name, value in run.tuned.items()},
        run.mass,
        offset + iterations,
        lambda draw: _keep(draw, offset, positions, stats),
        stop,
    )
    completed = int(run.state.completed.min()) - offset
    run.iteration += completed
    run.watch.see(positions[:, :completed], stats["accept"][:, :completed])
    return positions, stats, completed


def _keep(draw: Draw, offset: int, positions: Tensor, stats: Stats) -> None:
    """Writes the completed iterations to their places."""
    if not bool(draw.done.any()):
        return
    chain = draw.done.nonzero()[:, 0]
    at = draw.iteration[chain] - offset
    positions[chain, at] = draw.position[chain]
    for name in stats:
        stats[name][chain, at] = getattr(draw, name)[chain].double()


def collect(run: Run, draws: int, thin: int, stop: Stop, show: Show) -> tuple[Tensor, Stats]:
    """Draws of all chains after warm-up, (chain, draw, dim), every `thin`-th iteration."""
    run.sampling = run.iteration = -(-run.iteration // BLOCK) * BLOCK  # sampling begins with a block of its own
    positions: list[Tensor] = []
    stats: list[Stats] = []
    wanted, kept, divergences = draws * thin, 0, 0
    while kept < wanted and not stop():
        position, stat, completed = advance(run, min(BLOCK, wanted - kept), stop)
        positions.append(position[:, :completed])
        stats.append({name: value[:, :completed] for name, value in stat.items()})
        kept += completed
        divergences += int(stats[-1]["diverging"].sum()) if "diverging" in stat else 0
        show(kept, f"accept {float(stats[-1]['accept'].mean()):.2f}, {divergences} divergences")
    whole = torch.cat([run.mass.scale.new_zeros(len(run.state.completed), 0, run.density.dim), *positions], 1)
    return whole[:, thin - 1 :: thin], {
        name: torch.cat([stat[name] for stat in stats], 1)[:, thin - 1 :: thin] for name in run.kernel.STATS if stats
    }
