"""The three problems in NumPyro: microseconds of a gradient or of a step of SVI, as JSON; the benchmarks call it."""

from __future__ import annotations

import argparse
import itertools
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import initialize_model
from numpyro.optim import Adam


def network(x, y=None, *, widths, scaled):
    """tanh network; w_l ~ N(0, 1), divided by the root of the fan-in where `scaled`; noise ~ HalfNormal(1)."""
    h, sizes = x, (x.shape[-1], *widths, 1)
    for i, (fan_in, width) in enumerate(itertools.pairwise(sizes), start=1):
        scale = fan_in**-0.5 if scaled else 1.0
        w = numpyro.sample(f"w{i}", dist.Normal(0, scale).expand([fan_in, width]).to_event(2))
        b = numpyro.sample(f"b{i}", dist.Normal(0, 1).expand([width]).to_event(1))
        h = (jnp.tanh(h) if i > 1 else h) @ w + b
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    f = numpyro.deterministic("f", h[:, 0])
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(f, noise), obs=y)


def lecture_bnn(x, y=None):
    network(x, y, widths=(50,), scaled=False)


def boston_bnn(x, y=None):
    network(x, y, widths=(50, 50), scaled=True)


def logistic(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([x.shape[-1]]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    f = numpyro.deterministic("f", x @ w + b)
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=f), obs=y)


MODELS = {"lecture_bnn": lecture_bnn, "logistic": logistic, "boston_bnn": boston_bnn}


def data(path):
    """x and y of an .npz."""
    saved = np.load(path)
    return jnp.asarray(saved["x"]), jnp.asarray(saved["y"])


def gradient(model, x, y) -> dict[str, float]:
    """Microseconds of a gradient for each number of chains, called as samplers do: in a loop that is compiled whole."""
    start = initialize_model(jax.random.PRNGKey(0), model, model_args=(x, y))
    both, found = jax.vmap(jax.value_and_grad(start.potential_fn)), {}

    def one(_, carried):  # each from where the last has led, or the compiler would do it once
        position, total = carried
        value, grad = both(position)
        return jax.tree.map(lambda p, g: p - 1e-9 * g, position, grad), total + value

    many = jax.jit(lambda position, total, count: jax.lax.fori_loop(0, count, one, (position, total)))
    for chains in (1, 4, 16, 64):
        position = {
            k: jax.random.normal(jax.random.PRNGKey(1), (chains, *v.shape)) * 0.3 for k, v in start.param_info.z.items()
        }
        total, count, took = jnp.zeros(chains), 50, 0.0
        jax.block_until_ready(many(position, total, count))
        while took < 1.0:
            count *= 2
            begun = time.perf_counter()
            jax.block_until_ready(many(position, total, count))
            took = time.perf_counter() - begun
        found[str(chains)] = took / count * 1e6
    return found


def svi(model, x, y, steps: int) -> dict[str, float]:
    """Microseconds a step of 1 and of 16 fits, mapped over their states; all steps in one compiled loop."""
    fit, found = SVI(model, AutoNormal(model), Adam(0.01), Trace_ELBO()), {}

    def run(state):
        return jax.lax.scan(lambda s, _: fit.update(s, x, y), state, None, length=steps)

    for restarts in (1, 16):
        states = [fit.init(key, x, y) for key in jax.random.split(jax.random.PRNGKey(0), restarts)]
        state = states[0] if restarts == 1 else jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        call, times = jax.jit(run if restarts == 1 else jax.vmap(run)), []
        for _ in range(2):
            begun = time.perf_counter()
            jax.block_until_ready(call(state))
            times.append(time.perf_counter() - begun)
        found[f"step, {restarts}"] = times[1] / steps * 1e6
        found[f"before s, {restarts}"] = times[0] - times[1]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("gradient", "svi"))
    parser.add_argument("problem", choices=tuple(MODELS))
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=5000)
    args = parser.parse_args()
    target, rows = MODELS[args.problem], data(args.data)
    print(json.dumps(gradient(target, *rows) if args.what == "gradient" else svi(target, *rows, args.steps)))
