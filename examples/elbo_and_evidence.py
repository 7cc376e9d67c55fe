"""The ELBO, its two parts, and the bar that never changes: ELBO + KL(q, posterior) = log evidence.

Look for: training moves the border inside the bar, its length stays at -.08933; a mean field stops at
KL = .656 and sds half as wide as the posterior's, a full covariance drives the KL to 0.
`--picture FILE` draws the bars.

Source: Thome, "Evidence: a bar"; Bishop 2006, eq. 9.70.
"""

from __future__ import annotations

import argparse

import torch

import zoo
from zoo.infer.evidence import evidence_bar

Y = """-.71075 -.363213 -.176288 .041064 -.349397 -.132045 .05488 .402416 -.095336 .095087 .29974 -.097977 .138904
.324159 .594288 .170561 .366667 .562772 .139045 .409174 .594429 .83131 .433594 .638247 .828669"""
LOG_EVIDENCE, ELBO, KL = -0.0893331200, -0.7451726760, 0.6558395609  # closed form: the mean-field optimum
SD = torch.tensor([0.0399361531, 0.0342454797]).double()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--picture", metavar="FILE", help="draw the bars of the mean field")
    args = parser.parse_args()
    steps = 1500 if args.quick else 6000

    y = torch.tensor([float(v) for v in Y.split()], dtype=torch.float64)
    data = zoo.Data(torch.linspace(0, 2, 25, dtype=torch.float64)[:, None], y)
    problem = zoo.load("linear_regression", data, prior_scale=0.5**0.5, noise=0.2)
    fit = zoo.run(problem, "svi", steps=steps, lr=0.04, particles=16, draws=20_000, engine="eager")
    h = {name: fit.history[name][0] for name in ("elbo", "expected_log_likelihood", "kl")}
    for t in (0, steps // 10, steps - 1):
        print(f"step {t:5d}: " + ", ".join(f"{name} {float(v[t]):.3f}" for name, v in h.items()))
    assert torch.allclose(h["elbo"], h["expected_log_likelihood"] - h["kl"])
    sd = torch.cat([fit.draws["b"].std(1), fit.draws["w"][0].std(0)])
    print(f"sds {sd.numpy().round(4)}, mean-field optimum {SD.numpy().round(4)}")
    assert ((sd / SD - 1).abs() < 0.05).all()

    for guide in ("normal", "full_rank"):
        print(f"{guide}: step, ELBO + KL(q, posterior) = log evidence")
        bar = evidence_bar(problem, guide, 5, steps, lr=0.04, particles=16)
        for step, elbo, kl, _ in bar:
            print(f"  {step:5d}  {elbo:10.5f} + {kl:9.5f} = {elbo + kl:.8f}")
            assert abs(elbo + kl - LOG_EVIDENCE) < 1e-6
        assert abs(bar[-1].elbo - (ELBO if guide == "normal" else LOG_EVIDENCE)) < 0.01
        assert abs(bar[-1].kl - (KL if guide == "normal" else 0)) < 0.01
    if args.picture:
        zoo.plot(fit, kind="evidence", to=args.picture)


if __name__ == "__main__":
    main()
