"""The step h of Langevin dynamics: what MALA refuses, how wrong ULA is, and a step that falls beside one that stays.

Look for: refusals vanish as .2251 h^1.5 (the lecture's "check!"), ULA's bias only as h / 2. The bias of SGLD's averages
is near (sum eps^2 / sum eps) / 4: it goes to 0 where sum eps has no limit and sum eps^2 has one, .5 < gamma <= 1, and
stays where eps does. `--broken`: MALA accepts with max(ratio, 1), as the slide prints, so always.

Source: Ambrogioni, "Metropolis-adjusted Langevin"; Ambrogioni, "Stochastic gradient Langevin dynamics".
"""

import argparse

import torch
from scipy.special import zeta

import zoo
from zoo.infer.kernels import mala, sgld
from zoo.infer.mass import unit
from zoo.report import canvas

ACCEPTED = {1.0: 0.783653, 0.5: 0.920833, 0.2: 0.979875, 0.1: 0.992883, 0.05: 0.997484, 0.01: 0.999775}
LABELS = ("h: MALA's refusals (lower), ULA's bias", "t: sum eps, sum eps^2 (lower)", "t: bias of averages of w^2")
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer chains and steps")
parser.add_argument("--broken", action="store_true", help="MALA by max(ratio, 1)")
parser.add_argument("--picture", metavar="FILE", help="draw both against h, and the two sums and the bias against t")
args, _, shown = parser.parse_args(), torch.manual_seed(0), canvas.panels(None, 3, (6, 4.5))
one, rows = torch.ones(1).double(), []
for h, accepted in ACCEPTED.items():  # on N(0, 1), from exact draws; ULA from its own law
    old, w, noise = torch.randn(3, 200_000, 1).double()
    ends = [(w, -(w[:, 0] ** 2) / 2, -w) for w in (old, old - h * old + (2 * h) ** 0.5 * noise)]
    accept = mala.log_ratio(*ends, h * one, unit(one)).exp().clamp(**{"min" if args.broken else "max": 1})
    ula = (1 - h) * (law := 1 / (1 - h / 2)) ** 0.5 * w + (2 * h) ** 0.5 * noise
    rows.append((1 - accept.mean(), 0.2251 * h**1.5, ula.var() - 1, law - 1))
    print(f"h {h}: MALA accepts {accept.mean():.6f} ({accepted}); ULA's variance {ula.var():.4f} ({law:.4f})")
    assert (abs(accept.mean() - accepted) < 4 * accept.std() / 200_000**0.5) != args.broken
    assert abs(ula.var() / law - 1) < 4 * (2 / 200_000) ** 0.5
assert (abs(rows[-1][0] / rows[-1][1] - 1) < 0.1) != args.broken
shown[0].loglog(list(ACCEPTED), [row[::2] for row in rows], "ko", list(ACCEPTED), [row[1::2] for row in rows], "b-")
b, n, t = 10.0, 500 if args.quick else 1000, torch.arange(300 if args.quick else 2000).double()
gaussian = zoo.load("linear_regression", zoo.Data(one[None], 0 * one), bias=False, noise=2**0.5, prior_scale=2**0.5)
start = torch.special.ndtri((torch.arange(n).double() + 0.5) / n)[:, None, None]  # chains spread over N(0, 1)
options = {"chains": n, "draws": len(t), "init": zoo.Posterior(gaussian, "start", "iid", {"w": start})}
options |= {"warmup": 0, "step_size": 0.5, "b": b, "mass": "unit", "engine": "eager"}
for i, gamma in enumerate((0.0, 0.55, 1.0)):
    w, eps = zoo.run(gaussian, "sgld", gamma=gamma, **options).draws["w"][..., 0], sgld.schedule(one / 2, t, gamma, b)
    variance = [one]
    for h in eps:
        variance.append((1 - h / 2) ** 2 * variance[-1] + h)
    total, squares = (sums := torch.stack([eps, eps**2], 1).cumsum(0))[-1]
    law, seen = (eps * torch.cat(variance[1:])).cumsum(0) / sums[:, 0], (eps * w**2).cumsum(1) / sums[:, 0]
    limit, rest = b ** (2 * gamma) / 4 * zeta(2 * gamma, [b, b + len(t)]) if gamma else (0.0, float("inf"))
    print(f"gamma {gamma}: sum eps {total:.1f}; sum eps^2 {squares:.2f}, after t = {len(t)} {rest:.2f} more;")
    print(f"  mean w^2 {seen[:, -1].mean():.4f} ({law[-1]:.4f}), near 1 + ratio / 4 = {1 + squares / total / 4:.4f}")
    assert bool((abs(seen.mean(0) - law) < 5 * seen.std(0) / n**0.5).all())
    assert not gamma or (abs(squares + rest - limit) < 1e-9 and law[-1] - 1 < 0.06)
    shown[1].loglog(t + 1, sums, label=[f"gamma {gamma}", "_"], **canvas.line(i))
    shown[2].loglog(t + 1, law - 1, **canvas.line(i)), shown[2].plot(t + 1, abs(seen.mean(0) - 1), "k", lw=0.5)
for axes, label in zip(shown, LABELS, strict=True):
    axes.set(xlabel=label), canvas.dress(axes)
_ = args.picture and [canvas.legend(shown[1]), axes.figure.savefig(args.picture, dpi=150)]
