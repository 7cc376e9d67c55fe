"""A step of dropout on 8-300-300-1 against plain PyTorch: the same net, batch and Adam, one thread, in one process.

python benchmarks/dropout.py

torch        nn.Linear, nn.ReLU, nn.Dropout, torch.optim.Adam with weight decay
compiled     the same net and loss through torch.compile
zoo row      `bernoulli_dropout`, a mask for each row: svi's own step, compiled
zoo eager    svi's own step, not compiled
zoo draw     one mask for the batch, compiled
noise        of that, standard normals for the masks alone

The last line says from how many steps on svi's engine="auto" compiles this net.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import zoo
from guides.bernoulli_dropout import bernoulli_dropout
from zoo.infer.ascent import REPAYS, masked_numbers
from zoo.infer.prepared import prepare, quiet
from zoo.infer.step_source import Source
from zoo.infer.steps import ready
from zoo.infer.track import first_state
from zoo.infer.variational import Variational

ROWS, FEATURES, P = 128, 8, 0.05


def torch_step(x: Tensor, y: Tensor, widths: Sequence[int], compiled: bool) -> Callable[[], Any]:
    """A training step in plain PyTorch."""
    sizes, layers = (FEATURES, *widths, 1), list[nn.Module]()
    for i in range(len(sizes) - 1):
        layers += [nn.ReLU()] if i else []
        layers += [nn.Dropout(P), nn.Linear(sizes[i], sizes[i + 1])]
    net = nn.Sequential(*layers)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-5)
    forward: Any = torch.compile(net) if compiled else net

    def step() -> None:
        optimiser.zero_grad()
        (forward(x)[:, 0] - y).square().mean().backward()
        optimiser.step()

    return step


def ours(x: Tensor, y: Tensor, widths: Sequence[int], mask: str) -> Variational:
    """The same net as svi has it."""
    problem = zoo.load("mc_dropout", zoo.Data(x, y), hidden=tuple(widths), p=P)
    return Variational(problem, [prepare(bernoulli_dropout(problem.model, P, mask=mask), problem, 0)])


def zoo_block(
    x: Tensor, y: Tensor, widths: Sequence[int], mask: str, engine: str = "compiled"
) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    """A block of svi's steps as it runs on the engine, the noise that it takes, and how many steps it is."""
    fit = ours(x, y, widths, mask)
    source = Source(fit, 1, None, [(0, 0)])
    state, paces = [first_state(fit.start)], torch.tensor([1e-3, 0.1, 0.1]).expand(source.length, 3).clone()
    shape, rows, which = source.noise(0).shape, source.rows(0), range(source.length)
    with quiet():
        advance = ready(fit, source, engine, state[0], paces)[0]

    def block() -> None:
        with quiet(), torch.no_grad():
            state[0], _ = advance(state[0], torch.randn(shape), paces, rows, which, lambda i, state: False)

    return block, lambda: torch.randn(shape), source.length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", default="300,300")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(1)
    widths = [int(width) for width in args.widths.split(",")]
    x, y = torch.randn(ROWS, FEATURES), torch.randn(ROWS)
    (row, noise, length), (one, _, of_one) = zoo_block(x, y, widths, "row"), zoo_block(x, y, widths, "draw")
    calls = {  # and the steps of a call
        "torch": (torch_step(x, y, widths, compiled=False), 1),
        "compiled": (torch_step(x, y, widths, compiled=True), 1),
        "zoo row": (row, length),
        "zoo eager": (zoo_block(x, y, widths, "row", "eager")[0], length),
        "zoo draw": (one, of_one),
        "noise": (noise, length),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(args.rounds):  # in turn, so that a busy machine slows all of them
        for name, (call, each) in calls.items():
            call()
            times, begun = max(1, args.steps // each), time.process_time()
            for _ in range(times):
                call()
            seconds[name].append((time.process_time() - begun) / times / each)
    plain = statistics.median(seconds["torch"])
    print(f"{FEATURES}-{'-'.join(map(str, widths))}-1, {ROWS} rows: ms of processor a step, and ratio to torch")
    for name, times in seconds.items():
        print(f"{name:10s} {1e3 * statistics.median(times):7.3f} {statistics.median(times) / plain:6.2f}")
    least = REPAYS // masked_numbers(ours(x, y, widths, "row"), (1, ROWS), None) + 1
    print(f"engine='auto' compiles a fit of {least} steps and more")


if __name__ == "__main__":
    main()
