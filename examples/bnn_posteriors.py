"""What are a network's posteriors really like? The questions of Izmailov et al. on a network whose gold costs seconds.

Look for: R-hat of weights is far above 1 where that of the predictions is near 1: units permute, functions mix.
Agreement (share of equal classes) with gold is high for all, total variation tells them apart. Then log likelihood of
test rows as they are, rotated by 30 degrees and with noise on them, for posteriors colder and warmer than T = 1, for
narrower and wider priors and other families.

Source: Ambrogioni, "Bayesian neural networks"; Izmailov, Vikram, Hoffman & Wilson 2021; Wenzel et al. 2020 (T < 1).
"""

import argparse
import math

import torch

import zoo

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="a small network, few settings and draws")
args = parser.parse_args()
sizes = {"scaling": "none", **({"hidden": 5, "n": 40} if args.quick else {})}
chees = {"draws": 30, "warmup": 80, "engine": "eager"} if args.quick else {"draws": 500, "warmup": 600}
problem = zoo.load("bnn_classification", **sizes)
gold = zoo.run(problem, "chees", seed=0, **chees)
steps = {"draws": 150, "warmup": 0, "engine": "eager"} if args.quick else {"draws": 5000, "warmup": 0}
svi = {"steps": 300 if args.quick else 5000, "engine": "eager" if args.quick else "auto"}
fits = {
    "one chain": zoo.run(problem, "hmc", chains=1, **(chees if args.quick else {"draws": 8000})),
    "one MAP": zoo.run(problem, "map", restarts=1, seed=0),
    "10 MAPs": zoo.run(problem, "map", restarts=10, seed=0),
    "sgld": zoo.run(problem, "sgld", batch_size=10, init="map", **steps),
    "sghmc": zoo.run(problem, "sghmc", batch_size=10, init="map", step_size=1e-3, **steps),
    "mean field": zoo.run(problem, "svi", **svi),
    "dropout": zoo.run(problem, "svi", guide="bernoulli_dropout", guide_options={"rate": 0.1}, **svi),
}
table = zoo.compare(gold, *fits.values()).frame
print(f"gold: R-hat of weights {table['rhat_w'][0]:.2f}, of predictions {table['rhat_f'][0]:.3f}; {gold.outcome}")
print("            agreement  total variation, to gold")
assert table["rhat_w"][0] > 1 + 2 * (table["rhat_f"][0] - 1)
for name, agree, tv in zip(fits, table["agreement"][1:], table["tv"][1:], strict=True):
    print(f"{name:12}{agree:9.3f}{tv:17.3f}")

data, c, s = problem.data, math.cos(math.pi / 6), math.sin(math.pi / 6)
noisy = data.x_test + 0.5 * torch.randn(data.x_test.shape, generator=torch.Generator().manual_seed(0))
inputs = {"as is": data.x_test, "rotated": data.x_test @ torch.tensor([[c, s], [-s, c]]), "noisy": noisy}


def log_likelihoods(fit):
    one = [fit.predict(x)["mean"].mean((0, 1)) for x in inputs.values()]
    return [float(torch.where(data.y_test > 0.5, p, 1 - p).clamp(min=1e-6).log().mean()) for p in one]


print("log likelihood a row   " + "".join(f"{name:>9}" for name in inputs))
sweep = {f"T = {t}": ({}, {"temperature": t}) for t in ((0.1,) if args.quick else (0.03, 0.1, 0.3, 1, 3))}
sweep |= {f"prior scale {s}": ({"prior_scale": s}, {}) for s in ((3.0,) if args.quick else (0.3, 3.0, 10.0))}
sweep |= {f"{prior} prior": ({"prior": prior}, {}) for prior in (() if args.quick else ("laplace", "mixture"))}
for name, (hyper, option) in sweep.items():
    found = log_likelihoods(zoo.run(zoo.load("bnn_classification", **sizes, **hyper), "chees", **chees, **option))
    print(f"{name:23}" + "".join(f"{value:9.3f}" for value in found), flush=True)
print(f"{'10 MAPs':23}" + "".join(f"{value:9.3f}" for value in log_likelihoods(fits["10 MAPs"])))
