"""A Pyro model of your own: eight schools, from no change at all to a checked posterior.

Look for: the model is plain Pyro; a dict of its arguments is the data; every method that suits it runs on it,
and `to_arviz` hands the draws to ArviZ. Schools shrink towards each other: the 28 of school A to about 6.

Source: Rubin 1981; Gelman et al. 2013, section 5.5.
"""

from __future__ import annotations

import argparse

import pyro
import pyro.distributions as dist
import torch

import zoo


def schools(sigma, y):
    """y_j ~ N(theta_j, sigma_j), theta = mu + tau eta, mu ~ N(0, 5), tau ~ HalfCauchy(5)."""
    mu = pyro.sample("mu", dist.Normal(sigma.new_zeros(()), 5.0))
    tau = pyro.sample("tau", dist.HalfCauchy(sigma.new_full((), 5.0)))
    with pyro.plate("school", sigma.shape[0]):
        eta = pyro.sample("eta", dist.Normal(sigma.new_zeros(()), 1.0))
        theta = pyro.deterministic("theta", mu + tau * eta)
        pyro.sample("y", dist.Normal(theta, sigma), obs=y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer draws")
    args = parser.parse_args()

    y = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], dtype=torch.float64)
    sigma = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], dtype=torch.float64)
    problem = zoo.Problem("eight schools", schools, {"sigma": sigma, "y": y})
    draws = 400 if args.quick else 1000
    fit = zoo.run(problem, "nuts", chains=8, draws=draws, warmup=500, target_accept=0.95, seed=0)
    print(fit)

    theta = fit.predict()["theta"].flatten(0, 1)  # deterministic sites come with the predictions
    for name, effect, mean, sd in zip("ABCDEFGH", y, theta.mean(0), theta.std(0), strict=True):
        print(f"school {name}: {float(effect):5.1f}, posterior {float(mean):4.1f} +- {float(sd):.1f}")
    mu, tau = fit.draws["mu"].flatten(), fit.draws["tau"].flatten()
    print(f"mu {float(mu.mean()):.2f} +- {float(mu.std()):.2f}, tau {float(tau.mean()):.2f}")
    assert abs(float(mu.mean()) - 4.4) < 0.6
    assert abs(float(tau.mean()) - 3.6) < 0.8
    assert 5 < float(theta[:, 0].mean()) < 8 < float(y[0])
    assert float(theta.mean(0).std()) < 0.3 * float(y.std())
    print(fit.to_arviz())


if __name__ == "__main__":
    main()
