"""What are a network's posteriors really like? The questions of Izmailov et al. on a network whose gold costs seconds.

Look for: R-hat of the regression's weights is further from 1 than that of its f: units permute, functions mix. The
share of classes that agree with gold is high for all, total variation tells them apart. Then scores of test rows as
they are, rotated by 30 degrees and with noise on them, for other temperatures than T = 1 and other priors.

Source: Ambrogioni, "Bayesian neural networks"; Izmailov, Vikram, Hoffman & Wilson 2021; Wenzel et al. 2020 (T < 1).
"""

import argparse

import numpy as np
import torch
from sklearn.metrics import log_loss

import zoo
from zoo.report.calibration import ece

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="a small network, few settings and draws")
args, sizes = parser.parse_args(), {"scaling": "none"}
sizes |= {"hidden": 5, "n": 40} if args.quick else {}
quick = {"draws": 30, "warmup": 80, "engine": "eager"}
chees = {"mass": "prior", **(quick if args.quick else {"draws": 500, "warmup": 600})}
for name in ("bnn_regression", "bnn_classification"):
    gold = zoo.run(problem := zoo.load(name, **sizes), "chees", seed=0, **chees)
    rhat = zoo.compare(gold).frame
    print(f"{name}: R-hat of weights {rhat['rhat_w'][0]:.3f}, of f {rhat['rhat_f'][0]:.3f}; {gold.outcome}", flush=True)
    assert name == "bnn_classification" or rhat["rhat_w"][0] > rhat["rhat_f"][0]
steps = {"draws": 150, "warmup": 0, "engine": "eager"} if args.quick else {"draws": 5000, "warmup": 0}
svi = {"steps": 300, "engine": "eager"} if args.quick else {}
fits = {
    "one chain": zoo.run(problem, "hmc", chains=1, **(quick if args.quick else {"draws": 8000})),
    "one MAP": zoo.run(problem, "map", restarts=1, seed=0),
    "10 MAPs": zoo.run(problem, "map", restarts=10, seed=0),
    "sgld": zoo.run(problem, "sgld", batch_size=10, init="map", **steps),
    "sghmc": zoo.run(problem, "sghmc", batch_size=10, init="map", step_size=1e-3, **steps),
    "mean field": zoo.run(problem, "svi", **svi),
    "dropout": zoo.run(problem, "svi", guide="bernoulli_dropout", guide_options={"rate": 0.1}, **svi),
}
table = zoo.compare(gold, *fits.values()).frame[["agreement", "tv"]].set_axis(["gold", *fits]).round(3)
print(f"agreement and total variation, to gold\n{table.to_string(header=False)}", flush=True)
x, y = problem.data.x_test, problem.data.y_test.long().numpy()
inputs = {"as is": x, "rotated": x @ torch.tensor([[0.75**0.5, 0.5], [-0.5, 0.75**0.5]])}
inputs["noisy"] = x + 0.5 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))


def scores(fit):
    p = [fit.predict(x)["mean"].mean((0, 1)).double().numpy() for x in inputs.values()]
    return "".join(f"{-log_loss(y, q):9.3f} {ece(np.stack([1 - q, q], 1), y):.2f}" for q in p)


print("log likelihood, calibration error: " + ", ".join(inputs))
sweep = {f"T = {t}": ({}, {"temperature": t}) for t in ((0.1,) if args.quick else (0.03, 0.1, 0.3, 1, 3))}
sweep |= {f"prior scale {s}": ({"prior_scale": s}, {}) for s in ((3.0,) if args.quick else (0.3, 3.0, 10.0))}
sweep |= {} if args.quick else {f"{prior} prior": ({"prior": prior}, {}) for prior in ("laplace", "mixture")}
for name, (hyper, option) in sweep.items():
    fit = zoo.run(zoo.load("bnn_classification", **sizes, **hyper), "chees", **chees, **option)
    print(f"{name:16}{scores(fit)}  {fit.outcome[:40]}", flush=True)
print(f"{'10 MAPs':16}{scores(fits['10 MAPs'])}")
