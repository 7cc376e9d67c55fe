"""A race of six samplers on a banana, a funnel and two networks: effective draws for 1,000 gradients.

Look for: a number counts only beside the verdict ok; where chains stand still or diverge it flatters. Seen: with two
coordinates nobody beats mh, one density a draw, if it runs long enough (banana 57, mclmc 15); on a small network mclmc
and chees are ahead (13, 11), on the lecture's hmc, whose fixed length happens to suit (.4, chees and mclmc .2), while
mh and mala get nowhere; on the funnel nobody: v's sd is 3. An hour in full. `--broken`: mh by max(ratio, 1).

Source: Ambrogioni, "Hamiltonian Monte Carlo"; Neal 2003 (the funnel); Hoffman, Radul & Sountsov 2021 (chees).
"""

import argparse

import pyro
import pyro.distributions as dist
import torch

import zoo
from zoo.core.diagnostics import ess
from zoo.infer.kernels import mh
from zoo.infer.verdict import compared


def banana(zero):
    x = pyro.sample("x", dist.Normal(zero, 1.0))
    pyro.sample("y", dist.Normal((x**2 - 1) / 2, 0.5))
    pyro.factor("observed", zero)


def funnel(zero):
    v = pyro.sample("v", dist.Normal(zero, 3.0))
    pyro.sample("w", dist.Normal(zero, (v / 2).exp()).expand([9]).to_event(1))
    pyro.factor("observed", zero)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="the banana, mh, mala and chees, few draws")
parser.add_argument("--broken", action="store_true", help="mh alone, with the slide's acceptance")
args, zero = parser.parse_args(), torch.zeros((), dtype=torch.float64)
draws, options = {"mh": 8000, "mala": 8000, "hmc": 1000, "nuts": 1000, "chees": 1000, "mclmc": 1000}, {"warmup": 600}
targets = [(zoo.Problem("banana", banana, {"zero": zero}), "y", 0.75**0.5)]  # a site of mean 0 and this sd
if args.quick:
    draws, options = {"mh": 500, "mala": 500, "chees": 250}, {"warmup": 300, "engine": "eager"}
else:
    small = zoo.load("bnn_regression", n=20, hidden=4, noise=0.5, scaling="none").to(dtype=torch.float64)
    targets += [(zoo.Problem("funnel", funnel, {"zero": zero}), "v", 3.0), (small, "b2", None)]
    targets += [(zoo.load("bnn_regression", scaling="none"), "noise", None)]  # the lecture's: 153 coordinates
if args.broken:
    draws, mh.log_ratio, options["step_size"] = {"mh": 500}, lambda lp, new: (new - lp).clamp(min=0), 1.0
for problem, site, sd in targets:
    print(f"{problem.name}: ESS for 1,000 gradients (gradients, in warm-up too), {site}: mean, sd; verdict")
    score = {}
    for name in draws:
        fit = zoo.run(problem, name, draws=draws[name], chains=16, keep_warmup=True, **options)
        # A method without trajectories takes one step a draw.
        cost, warm = (int(s.get("steps", torch.ones_like(s["lp"])).sum()) for s in (fit.stats, fit.warmup["stats"]))
        rate = 1000 * min(ess(q.values).min() for q in compared(fit).values()) / cost
        mean, spread = float(fit.draws[site].mean()), float(fit.draws[site].std())
        print(f"  {name:6}{rate:6.1f} ({cost}, {warm})  {mean:6.2f} {spread:6.2f}  {fit.outcome[:70]}", flush=True)
        score |= {name: rate} if fit.ok else {}
        assert sd is None or (spread > 3 * sd if args.broken else not fit.ok or abs(spread / sd - 1) < 0.15)
    print(f"  ahead, of those that converged: {max(score, key=score.get, default='nobody')}")
    assert not (args.quick or args.broken) or "mh" not in score
