"""sin(x) + x seen in two clusters, by one network and five q: how sure is each between and outside the data?

Look for: between the clusters, at x = 0, NUTS is many times less sure than inside them; dropout, Gaussian noise N(1, 1)
(MGN) and mean field are as sure there as where they saw data. A point is sure everywhere. p is the drop probability.
`--picture FILE` draws the bands on one axis.

Source: Gal, "Modern deep learning through Bayesian eyes: sin(x) + x"; Thome, "MC dropout: regression";
    Foong, Burt, Li & Turner 2020.
"""

from __future__ import annotations

import argparse

import torch

import zoo

PLACES = {"inside": 3.0, "between": 0.0, "outside": 8.0}


def clusters(n: int = 40, noise: float = 0.2) -> zoo.Data:
    """x on (-4, -2) and (2, 4)."""
    generator = torch.Generator().manual_seed(0)
    side = torch.arange(n) % 2 * 6 - 4
    x = (side + 2 * torch.rand(n, generator=generator))[:, None]
    y = (x.sin() + x)[:, 0] + noise * torch.randn(n, generator=generator)
    return zoo.Data(x, y, torch.linspace(-8, 8, 81)[:, None])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps and draws")
    parser.add_argument("--picture", metavar="FILE", help="draw the bands")
    args = parser.parse_args()
    problem = zoo.load("mc_dropout", clusters(), p=0.05, where="inner", hidden=10, noise=0.2)
    svi = {"steps": 600 if args.quick else 5000, "lr": 0.03, "engine": "eager"}
    few = {"warmup": 60, "draws": 50, "max_depth": 4, "engine": "eager"} if args.quick else {}
    mgn = {"guide": "gaussian_dropout", "guide_options": {"noise": "unit", "rate": (0, 0.5)}}
    fits = {
        "deterministic": zoo.run(problem, "svi", guide="point", **svi),
        "dropout": zoo.run(problem, "svi", **svi),
        "MGN": zoo.run(problem, "svi", **mgn, **svi),
        "mean field": zoo.run(problem, "svi", guide="normal", **svi),
        "nuts": zoo.run(problem, "nuts", **few),
    }
    print(f"{'sd of f':14s}{''.join(f'{name:>10s}' for name in PLACES)}   ratio between / inside")
    ratio, grid = {}, torch.tensor(list(PLACES.values()))[:, None]
    for name, fit in fits.items():
        sd = fit.predict(grid)["f"].flatten(0, 1).std(0).tolist()
        ratio[name] = sd[1] / sd[0] if sd[0] else 0.0
        print(f"{name:14s}{''.join(f'{s:10.3f}' for s in sd)}   {ratio[name]:.1f}")
    assert ratio["nuts"] > 4
    assert all(ratio[name] < 0.4 * ratio["nuts"] for name in fits if name != "nuts")
    if args.picture:
        zoo.plot(list(fits.values()), "band", args.picture)


if __name__ == "__main__":
    main()
