"""`Run`: the chains of one run and how far they are; `advance` moves them on, `snapshot` and `restore` save them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo.core.tensors import plain, to_numpy

from .density import Density
from .engine import Drive, compiled_drive, eager_drive
from .in_pieces import whole as of_all_rows
from .kernel import Setup
from .known import Untraceable
from .mass import Mass
from .noise import BLOCK, noise_block
from .stuck import Watch
from .subsample import batch_size

log = logging.getLogger("zoo")
Rows = dict[str, Tensor]
Stats = Rows
Stop = Callable[[], str]
Show = Callable[..., None]
POSITION = "position"
# So many chains' draws are written one by one in a third of the time that numpy takes to look them up together.
FEW = 6


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
        width: The prior's scales (dim,) where the mass is theirs.
        rows: n, where the kernel works on minibatches of the n rows.
        iteration: Iterations completed.
        noise: The present block of noise.
        block: Which block that is; -1 before the first.
        pending: Where a run was stopped within `advance`: rows from the current iteration on, with what chains that
            are ahead have drawn.
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
    width: Tensor | None = None
    rows: int = 0
    iteration: int = 0
    noise: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    block: int = -1
    pending: Rows | None = None
    sampling: int | None = None

    @property
    def share(self) -> float:
        """M / n of a kernel on minibatches, else 1."""
        size = batch_size(self.setup.noise)
        return size / self.rows if size else 1.0

    def make_noise(self, block: int) -> None:
        """Makes a block of noise the present one."""
        self.block = block
        self.noise = noise_block(
            self.setup.noise, seed=self.seed, block=block, chains=len(self.state.completed), like=self.mass.scale,
            n=self.rows,
        )  # fmt: skip

    def fill_noise(self) -> None:
        """The block of noise that belongs to the current iteration; counts start anew."""
        self.make_noise(self.iteration // BLOCK)
        if "clock" in self.tuned:
            self.tuned["clock"] = 0 if self.sampling is None else self.iteration - self.sampling
        self.state = self.state._replace(completed=torch.zeros_like(self.state.completed))


def put_on(engine: str, run: Run) -> tuple[str, float]:
    """Gives a run its step on an engine; which it became (a graph may not compile), and the seconds to compile."""
    constants = run.setup.constants
    if engine != "compiled":
        run.drive = eager_drive(run.kernel, run.density, constants)
        return engine, 0.0
    run.fill_noise()
    tuned = {name: run.mass.scale.new_tensor(value) for name, value in run.tuned.items()}
    example = (run.state, run.noise, tuned, run.mass, torch.tensor(1, device=run.mass.scale.device))
    try:
        run.drive, engine, seconds = compiled_drive(run.kernel, run.density, constants, example)
    except Untraceable as error:
        engine, seconds = "eager", 0.0
        log.warning("could not compile (%s); running uncompiled", str(error).splitlines()[0][:200])
    if engine != "compiled":  # as a run that goes on from here will be, which no longer tries to compile
        run.density = of_all_rows(run.density)
        run.drive = eager_drive(run.kernel, run.density, constants)
    return engine, seconds


def snapshot(run: Run) -> dict[str, Any]:
    """All of a run that changes, between any two steps of its chains. Noise is left out: its block says what it is."""
    plain = ("tuned", "iteration", "block", "pending", "sampling")
    return {
        "state": run.state._asdict(),
        "mass": run.mass._asdict(),
        "watch": vars(run.watch),
        "position": run.kernel.position_of(run.state),
        **{name: getattr(run, name) for name in plain},
    }


def restore(run: Run, saved: dict[str, Any]) -> None:
    """Puts a run where a snapshot of it was taken."""
    run.state, run.mass = type(run.state)(**saved["state"]), Mass(**saved["mass"])
    for name in ("tuned", "iteration", "pending", "sampling"):
        setattr(run, name, saved[name])
    for name, value in saved["watch"].items():
        setattr(run.watch, name, set(value) if name == "said" else to_numpy(value) if torch.is_tensor(value) else value)
    if saved["block"] >= 0:
        run.make_noise(saved["block"])


def at_start(kernel: Any, density: Density, at: Tensor, own: dict[str, Any]) -> tuple[Setup, Any]:
    """The kernel's setup, its constants where the positions `at` (chain, dim) are, and its state there."""
    setup = kernel.setup(density.dim, **own)
    setup = setup._replace(constants={name: value.to(at.device) for name, value in setup.constants.items()})
    return setup, kernel.init(at, *density.value_and_grad(at), setup.constants)


def noted(kernel: Any) -> list[str]:
    """What is kept of a kernel's draws beside their positions: its stats, and what warm-up learns from."""
    return list(dict.fromkeys((*kernel.STATS, "accept", *(["rise"] if hasattr(kernel, "tune") else []))))


def _room(run: Run, iterations: int) -> tuple[Tensor, Stats]:
    """Places for positions (chain, iterations, dim) and stats (chain, iterations), with what is pending in them."""
    chains, like, names = len(run.state.completed), run.mass.scale, noted(run.kernel)
    positions = like.new_zeros(chains, iterations, run.density.dim)
    stats = dict(zip(names, like.new_zeros(len(names), chains, iterations, dtype=torch.float64).unbind(), strict=True))
    for name, value in (run.pending or {}).items():
        (positions if name == POSITION else stats[name])[:, : value.shape[1]] = value
    return positions, stats


def advance(run: Run, iterations: int, stop: Stop, whole: bool = False) -> tuple[Tensor, Stats, int]:
    """Runs every chain `iterations` further, all within one block of noise.

    What it has not completed when `stop` ends it is pending, and the next call goes on with it.

    Args:
        run: The chains.
        iterations: How many.
        stop: Why to end early, or "".
        whole: If the iterations count together or not at all.

    Returns:
        Positions (chain, iterations, dim), stats (chain, iterations), and how many of them every chain completed:
        all, unless `stop` said to end early.
    """
    offset, like = run.iteration % BLOCK, run.mass.scale
    if offset == 0 and run.pending is None:
        run.fill_noise()
    positions, stats = _room(run, iterations)
    places = plain({POSITION: positions, **stats})
    assert run.drive is not None
    run.state = run.drive(
        run.state,
        run.noise,
        {name: like.new_tensor(value) for name, value in run.tuned.items()},
        run.mass,
        offset + iterations,
        lambda draw: _keep(draw, offset, places),
        stop,
    )
    completed = int(run.state.completed.min()) - offset
    completed = 0 if whole and completed < iterations else completed
    run.iteration += completed
    rest = {POSITION: positions, **stats}
    run.pending = None if completed == iterations else {name: rows[:, completed:] for name, rows in rest.items()}
    run.watch.see(positions[:, :completed], stats["accept"][:, :completed])
    return positions, stats, completed


def _keep(draw: dict[str, Any], offset: int, rows: dict[str, Any]) -> None:
    """Writes the completed iterations of a `Draw`, as numpy's arrays or tensors, to their places in `rows`."""
    done = draw["done"]
    if not done.any():
        return
    at = draw["iteration"] - offset
    if done.all() and (at == at[0]).all():  # chains in step
        for name, places in rows.items():
            places[:, int(at[0])] = draw[name]
        return
    (chain,) = done.nonzero(as_tuple=True) if isinstance(done, Tensor) else done.nonzero()
    if len(chain) <= FEW:
        for c, i in zip(chain.tolist(), at[chain].tolist(), strict=True):
            for name, places in rows.items():
                places[c, i] = draw[name][c]
        return
    for name, places in rows.items():
        value = draw[name][chain]
        places[chain, at[chain]] = value.to(places.dtype) if isinstance(value, Tensor) else value
