"""Effective draws a second of chees on networks with each kind of mass: learned, unit, or as wide as the prior.

python benchmarks/mass.py                                       # the lecture's network and the two-headed one
python benchmarks/mass.py --models bnn_regression --masses diagonal,prior

The least bulk ESS of f at the data, and that of lp, over seconds of warm-up and sampling; compiling is apart.
"""

from __future__ import annotations

import argparse
from typing import Any

from side import machine

MODELS: dict[str, dict[str, Any]] = {"bnn_regression": {"scaling": "none"}, "heteroscedastic_regression": {}}
MASSES = "diagonal,unit,prior"


def measured(model: str, mass: str, args: argparse.Namespace) -> str:
    """A line of the table."""
    import zoo
    from zoo.core.diagnostics import ess

    problem = zoo.load(model, **MODELS.get(model, {}))
    options = {"warmup": args.warmup, "draws": args.draws, "seed": args.seed, "engine": "compiled", "progress": False}
    fit = zoo.run(problem, args.method, mass=mass, init=args.init, **options)
    seconds = fit.seconds["warmup"] + fit.seconds["sample"]
    f = fit.predict()["f"].numpy().astype("float64")
    least, lp = float(ess(f).min()), float(ess(fit.stats["lp"].numpy()[..., None]).min())
    steps = float(fit.stats["steps"].double().mean())
    return (
        f"{model:28}{mass:>9}{seconds:8.1f}{steps:9.0f}{least:8.0f}{least / seconds:8.1f}{lp:8.0f}{lp / seconds:8.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--masses", default=MASSES)
    parser.add_argument("--method", default="chees")
    parser.add_argument("--init", default="uniform", help="where chains start; with mass prior uniform is in its units")
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{args.method}, {args.warmup} + {args.draws} iterations; {machine()}")
    print(f"{'model':28}{'mass':>9}{'s':>8}{'steps':>9}{'ESS f':>8}{'a s':>8}{'ESS lp':>8}{'a s':>8}")
    for model in args.models.split(","):
        for mass in args.masses.split(","):
            print(measured(model, mass, args), flush=True)


if __name__ == "__main__":
    main()
