"""Leapfrog: runs backwards, keeps volume, its energy error falls as h^2; and what the accept step of HMC repairs.

Look for: slope 2 (where it is unstable, beyond h = 2 / frequency, is shown by `pendulum`); accepted shares. `--broken`
accepts with max(ratio, 1), as the slide prints, so always: variance 1 / (1 - h^2/4) where 1 is right.

Source: Ambrogioni, "Leapfrog"; Ambrogioni, "Hamiltonian Monte Carlo"; Neal 2011, section 2.3.
"""

import argparse

import torch

from zoo.infer.kernels import hmc
from zoo.infer.leapfrog import leapfrog
from zoo.infer.mass import unit
from zoo.report import canvas


def log_p(q, k=0.0):  # and its gradient: N(0, 1), or with k > 0 a target that is no Gaussian; q (chain, 1)
    return -(q**2 / 2 + k * q**4).sum(-1), -q - 4 * k * q**3


def flow(q, p, h, steps, k=0.0):  # q, p (chain,) -> q, p and the energy, (steps + 1, chain)
    path = [torch.stack([q, p, log_p(q, k)[1]], 1)[..., None]]
    for _ in range(steps):
        path.append(leapfrog(path[-1], lambda q: log_p(q, k), q.new_tensor(h), unit(q[:1]))[0])
    q, p, _ = torch.stack(path)[..., 0].unbind(2)
    return q, p, p**2 / 2 - log_p(q[..., None], k)[0]


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--quick", action="store_true", help="fewer chains")
parser.add_argument("--broken", action="store_true", help="accept with max(ratio, 1), as the slide prints")
parser.add_argument("--picture", metavar="FILE", help="draw the energy error against the step")
args, _, (q, p) = parser.parse_args(), torch.manual_seed(0), torch.randn(2, 200).double()
there = flow(q, p, 0.05, 200, k=1.0)
missed = float((flow(there[0][-1], -there[1][-1], 0.05, 200, k=1.0)[0] - there[0].flip(0)).abs().max())
slopes = torch.autograd.functional.jacobian(lambda z: torch.cat(flow(*z[:, None], 0.05, 9, 1.0)[:2], 1)[-1], q[:2])
print(f"200 steps there and back miss by {missed:.0e}; 9 steps: volume times {slopes.det():.12f}")
assert max(missed, abs(slopes.det() - 1)) < 1e-10
labels, hs = {"xlabel": "h", "ylabel": "energy error (line: slope 2)", "xlim": (1e-3, 1)}, (0.08, 0.04, 0.02, 0.01)
errors = torch.stack([(e - e[0]).abs().max() for h in hs for e in [flow(q, p, h, round(2 / h), 1.0)[2]]])
print(f"energy errors at h = {hs}: {errors.numpy().round(4)}, slope {(errors[2] / errors[3]).log2():.3f}")
assert abs((errors[2] / errors[3]).log2() - 2) < 0.05
(axes,) = canvas.panels(None, 1, subplot_kw=labels)
axes.loglog(hs, errors, "ko", hs, errors[-1] * (torch.tensor(hs) / hs[-1]) ** 2, "k-")
_ = args.picture and [canvas.dress(axes), axes.figure.savefig(args.picture, dpi=150)]
chains, n = 10_000 if args.quick else 40_000, 100  # n trajectories on N(0, 1), started in it
for (h, steps), right in {(0.5, 3): 0.979491, (1.0, 2): 0.920833, (1.5, 2): 0.933104, (0.25, 6): 0.994998}.items():
    setup, q, u = hmc.setup(1, length=h * steps, jitter=0.0), torch.randn(chains, 1).double(), torch.rand(n, chains)
    noise = {"momentum": torch.randn(n, chains, 1).double(), "uniform": u * (not args.broken), "fraction": u}
    fixed = {"mass": unit(q[0]), "stop": torch.tensor(n), "length": q.new_tensor(h * steps), **setup.constants}
    state, share = hmc.init(q, *log_p(q), setup.constants), torch.zeros(chains).double()
    for _ in range(n * steps):
        state, draw = hmc.step(state, log_p, noise, step_size=q.new_tensor(h), **fixed)
        share += draw.done * draw.accept.clamp(min=float(args.broken)) / n
    variance, law = float(state.draw[:, 0].var()), 1 / (1 - h**2 / 4) if args.broken else 1.0
    print(f"hmc, h = {h}, {steps} steps: accepted {share.mean():.6f} ({right}), variance {variance:.3f} ({law:.3f})")
    assert (abs(share.mean() - right) < 4 * share.std() / chains**0.5) != args.broken
    assert abs(variance / law - 1) < 4 * (2 / chains) ** 0.5
