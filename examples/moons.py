"""Two half moons, one network: a point, MC dropout and NUTS say how probable the second class is.

Look for: all three separate the moons. Far from them the point is as sure as among them; dropout's masks disagree, and
the weights that NUTS draws disagree most: mutual information, in nats, is what the draws do not agree about. On the
border between the moons the uncertainty is noise (expected entropy), which more data would not remove.
`--picture FILE` draws the three maps of probabilities.

Source: Thome, "MC dropout: classification"; Gal & Ghahramani 2016.
"""

from __future__ import annotations

import argparse

import torch

import zoo

PLACES = {"in a moon": [-0.5, 0.75], "on the border": [0.0, 0.0], "far away": [-3.0, -3.0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps and draws")
    parser.add_argument("--picture", metavar="FILE", help="draw the maps")
    args = parser.parse_args()
    svi = {"steps": 400 if args.quick else 4000, "lr": 0.03, "engine": "eager"}
    few = {"chains": 2, "warmup": 50, "draws": 30, "max_depth": 4, "engine": "eager"} if args.quick else {}
    net = zoo.load("mc_dropout", kind="moons", hidden=20, p=0.1)
    fits = {
        "point": zoo.run(net, "svi", guide="bernoulli_dropout", guide_options={"rate": 0.0}, **svi),
        "MC dropout": zoo.run(net, "svi", **svi),
        "nuts": zoo.run(net, "nuts", **few),
    }
    x, found = torch.tensor(list(PLACES.values())), {}
    print(f"{'':12s}accuracy   " + "".join(f"{place:>26s}" for place in PLACES))
    print(f"{'':23s}" + f"{'p':>8s}{'expected':>10s}{'mutual':>8s}" * len(PLACES))
    for name, fit in fits.items():
        p, parts = fit.predict(x)["mean"].mean((0, 1)), zoo.uncertainty(fit, x)
        found[name] = (zoo.scores(fit)["accuracy"], parts.mutual_information, parts.expected_entropy)
        text = "".join(
            f"{p[i]:8.3f}{parts.expected_entropy[i]:10.3f}{parts.mutual_information[i]:8.3f}" for i in range(len(x))
        )
        print(f"{name:12s}{found[name][0]:8.3f}   {text}")
    assert all(accuracy > 0.85 for accuracy, _, _ in found.values())
    assert abs(found["point"][1]).max() < 1e-6
    assert all(found[name][1][2] > 2 * found[name][1][0] for name in ("MC dropout", "nuts"))
    assert all(parts[2][1] > 2 * parts[2][0] for parts in found.values())
    if args.picture:
        zoo.plot(list(fits.values()), "surface", args.picture)


if __name__ == "__main__":
    main()
