"""Maximum likelihood, MAP and averaging: two points that a line separates, then twenty points in the plane.

Look for: maximum likelihood has no answer and says so; far from all data the MAP is sure (p -> 1), the posterior's
average is not (p -> .798). `--picture FILE` draws both as maps: parallel contours, and a fan.

Source: Yandex, "Maximum a posteriori"; Ambrogioni, "Point estimates"; Bishop 2006, section 4.5.
"""

from __future__ import annotations

import argparse

import torch

import zoo

X, Y, FAR = torch.tensor([[-1.0], [1.0]]).double(), torch.tensor([0.0, 1.0]), torch.tensor([[2.0], [100.0]]).double()


def p_of(fit: zoo.Posterior, x: torch.Tensor) -> torch.Tensor:
    return fit.predict(x)["mean"].flatten(0, 1).double()


def draw(path: str) -> None:
    from matplotlib.figure import Figure

    axis, plane = torch.linspace(-8, 8, 81), zoo.load("logistic_regression", n=20)
    panels = Figure(figsize=(9, 4), layout="constrained").subplots(1, 2, sharey=True)
    for panel, method in zip(panels, ("map", "laplace"), strict=True):
        p = p_of(zoo.run(plane, method), torch.cartesian_prod(axis, axis)).mean(0).reshape(81, 81).T
        panel.clabel(panel.contour(axis, axis, p, levels=[0.05, 0.25, 0.5, 0.75, 0.95], colors="black"))
        panel.scatter(*plane.data.x.T, c=plane.data.y, cmap="gray", edgecolors="black")
        panel.set(title=f"p(y = 1), {method}", xlabel="x1", ylabel="x2")
    panel.figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer draws")
    parser.add_argument("--picture", metavar="FILE", help="draw the two maps")
    args = parser.parse_args()
    for method, options in {"map": {}, "nuts": {"warmup": 50, "draws": 60, "max_depth": 4}}.items():
        fit = zoo.run(zoo.load("logistic_regression", zoo.Data(X, Y), bias=False, prior="uniform"), method, **options)
        assert not fit.ok
        print(f"no prior, {method}: {fit.outcome}")
    two, draws = zoo.load("logistic_regression", zoo.Data(X, Y), bias=False), 20_000 if args.quick else 500_000
    mode, prior = zoo.run(two, "map"), zoo.run(two, "prior", draws=draws)
    weight = prior.log_likelihood().sum(-1).flatten().softmax(0)  # prior draws, weighted, are the posterior's
    print(f"w ~ N(0, 1): MAP {float(mode.draws['w'][0]):.4f}, mean {float(weight @ prior.draws['w'].flatten()):.4f}")
    plug_in, averaged = p_of(mode, FAR)[0], weight @ p_of(prior, FAR)
    for name, p in {"plug-in": plug_in, "averaged": averaged}.items():
        print(f"  p(y=1), {name}: {p[0]:.4f} at x = 2, {p[1]:.4f} at x = 100")
    assert abs(plug_in - torch.tensor([0.7940746, 1.0])).max() < 1e-6
    assert abs(averaged - torch.tensor([0.7204790, 0.7979491])).max() < 0.02
    if args.picture:
        draw(args.picture)


if __name__ == "__main__":
    main()
