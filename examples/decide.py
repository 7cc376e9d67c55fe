"""Whom to lend to: a decision needs costs as well as probabilities, and sometimes the answer is "ask somebody".

    action(x) = argmin_a sum_k p(k | x) cost[k, a];    with 0/1 costs and a price c of asking: ask where max p < 1 - c

Look for: at costs of 5 : 1 most loans are refused already at p(bad) > 1/6; deciding at 1/2 costs far more. Taught by 60
customers, the plug-in (MAP) is surer than gold and asks less often. On German credit (from $ZOO_DATA, where that is
set) it pays more, .137 against .112; on breast cancer, which comes with scikit-learn and where the classes lie far
apart, its sureness happens to be right: .022 against .029.

Source: Leal-Taixe, "Why do we care about uncertainty"; Chow 1970; Bishop 2006, section 1.5.
"""

import argparse
import dataclasses
import os

import numpy as np
import torch

import zoo
from zoo.report.decisions import decide, mean_cost

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="few draws")
parser.add_argument("--rows", type=int, default=60, help="customers to learn from")
args = parser.parse_args()
name = "uci/german_credit" if os.environ.get("ZOO_DATA") else "breast_cancer"
whole = zoo.load("logistic_regression", name)
x, y = torch.cat([whole.data.x, whole.data.x_test]), torch.cat([whole.data.y, whole.data.y_test])
n, asked = args.rows, {}
split = dataclasses.replace(whole.data, x=x[:n], y=y[:n], x_test=x[n:], y_test=y[n:])
problem, y = dataclasses.replace(whole, data=split), split.y_test.numpy()
COSTS, PRICE = [[0.0, 1.0], [5.0, 0.0]], 0.1  # [class, action]: lending to a bad risk costs 5, refusing a good one 1
options = {"draws": 150, "warmup": 150, "engine": "eager"} if args.quick else {"draws": 1000}
print(f"{name}, {n} rows, {len(y)} to decide. At 5 : 1: mean cost (deciding at 1/2). At 0/1: asked, mean cost")
for method, given in (("map", {}), ("svi", {"steps": 2000}), ("nuts", options)):
    fit = zoo.run(problem, method, seed=0, **given)
    one = fit.predict(split.x_test)["mean"].numpy().mean((0, 1))
    p = np.stack([1 - one, one], 1)
    actions, halves, careful = decide(p, COSTS), decide(p), decide(p, reject=PRICE)
    assert ((careful == -1) == (p.max(1) < 1 - PRICE)).all()  # Chow's rule
    assert (actions == (5 * p[:, 1] > p[:, 0])).all()
    cost, plain, priced = mean_cost(actions, y, COSTS), mean_cost(halves, y, COSTS), mean_cost(careful, y, reject=PRICE)
    asked[method] = np.mean(careful == -1)
    print(f"{method:5}{cost:8.3f} ({plain:.3f}) {asked[method]:8.2f}{priced:8.3f}", flush=True)
    assert plain > cost
assert asked["map"] < asked["nuts"]
