"""An epoch of a VAE's training, the zoo against a plain PyTorch loop of the same network.

python benchmarks/vae.py

784-400-20-400-784, Bernoulli pixels, Adam, batches of 100 of 5,000 images (random ones: time does not look at them).
The two take turns, `--rounds` times, one thread each; printed are seconds an epoch (median) and their ratio, asked to
be at most 1.2. Set-up is no part of the zoo's: it is the difference of a long and a short fit's ascents, and said
beside it.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

import zoo

ROWS, PIXELS, HIDDEN, LATENT, BATCH = 5000, 784, 400, 20, 100


class Plain(nn.Module):
    """The same network in torch's own modules."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PIXELS))

    def loss(self, y: torch.Tensor) -> torch.Tensor:
        """Minus the bound of a batch, a row, with the weights' prior."""
        loc, log_sd = self.encoder(y).chunk(2, -1)
        logits = self.decoder(loc + log_sd.exp() * torch.randn_like(loc))
        reconstruction = functional.binary_cross_entropy_with_logits(logits, y, reduction="sum")
        kl = 0.5 * (loc.square() + (2 * log_sd).exp() - 1 - 2 * log_sd).sum()
        prior = 0.5 * sum(p.square().sum() for p in self.decoder.parameters())
        return (reconstruction + kl) / len(y) + prior / ROWS


def plain_epoch(net: Plain, optimiser: torch.optim.Optimizer, y: torch.Tensor) -> float:
    """Seconds of one epoch of the plain loop."""
    begun = time.perf_counter()
    for rows in torch.randperm(len(y)).split(BATCH):
        optimiser.zero_grad()
        net.loss(y[rows]).backward()
        optimiser.step()
    return time.perf_counter() - begun


def zoo_epoch(problem: zoo.Problem, engine: str, epochs: int) -> tuple[float, float]:
    """Seconds of one epoch of svi's ascent, and of its set-up."""
    short, long = (_ascent(problem, engine, count) for count in (1, 1 + epochs))
    return (long - short) / epochs, short - (long - short) / epochs


def _ascent(problem: zoo.Problem, engine: str, epochs: int) -> float:
    steps = epochs * ROWS // BATCH
    fit = zoo.run(problem, "svi", steps=steps, batch_size=BATCH, lr=1e-3, draws=2, engine=engine)
    return fit.seconds["warmup"]


def main() -> None:
    """Prints seconds an epoch and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4, help="of a round")
    parser.add_argument("--engine", default="eager")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    y = (torch.rand(ROWS, PIXELS, generator=torch.Generator().manual_seed(0)) < 0.2).float()
    problem = zoo.load("vae", zoo.Data(y.new_empty(ROWS, 0), y), hidden=HIDDEN, latent=LATENT)
    net = Plain()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    ours, theirs = [], []
    for _ in range(asked.rounds):
        theirs += [plain_epoch(net, optimiser, y) for _ in range(asked.epochs)]
        ours.append(zoo_epoch(problem, asked.engine, asked.epochs))
    epoch, set_up = (statistics.median(times) for times in zip(*ours, strict=True))
    other = statistics.median(theirs)
    print(f"zoo {epoch:.3f} s (set-up {set_up:.1f} s), torch {other:.3f} s an epoch: ratio {epoch / other:.2f}")


if __name__ == "__main__":
    main()
