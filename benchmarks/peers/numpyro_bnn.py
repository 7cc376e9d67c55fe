"""The lecture BNN in NumPyro: microseconds a gradient or a step of SVI, or NUTS. Prints JSON; called by the benchmarks.

The data are made as in zoo.data.toy.sin_x_plus_x, by another generator: timing does not depend on them.
"""

from __future__ import annotations

import argparse
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import initialize_model
from numpyro.optim import Adam


def model(x, y=None, hidden=50):
    w1 = numpyro.sample("w1", dist.Normal(0, 1).expand([1, hidden]).to_event(2))
    b1 = numpyro.sample("b1", dist.Normal(0, 1).expand([hidden]).to_event(1))
    w2 = numpyro.sample("w2", dist.Normal(0, 1).expand([hidden, 1]).to_event(2))
    b2 = numpyro.sample("b2", dist.Normal(0, 1).expand([1]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    f = numpyro.deterministic("f", (jnp.tanh(x @ w1 + b1) @ w2 + b2)[:, 0])
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(f, noise), obs=y)


def data():
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, (100, 1)).astype(np.float32)
    y = np.sin(x[:, 0]) + x[:, 0] + 0.1 * rng.normal(size=100).astype(np.float32)
    return jnp.asarray(x), jnp.asarray(y.astype(np.float32))


def gradient() -> dict[str, float]:
    x, y = data()
    start = initialize_model(jax.random.PRNGKey(0), model, model_args=(x, y))
    both = jax.jit(jax.vmap(jax.value_and_grad(start.potential_fn)))
    found = {}
    for chains in (1, 4, 16, 64):
        position = {
            k: jax.random.normal(jax.random.PRNGKey(1), (chains, *v.shape)) * 0.3 for k, v in start.param_info.z.items()
        }
        jax.block_until_ready(both(position))
        calls = 3000 // chains + 200
        begun = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(both(position))
        found[str(chains)] = (time.perf_counter() - begun) / calls * 1e6
    return found


def nuts(warmup: int, draws: int, seed: int) -> dict[str, float]:
    x, y = data()
    mcmc = MCMC(
        NUTS(model), num_warmup=warmup, num_samples=draws, num_chains=4, chain_method="vectorized", progress_bar=False
    )
    begun = time.perf_counter()
    mcmc.run(jax.random.PRNGKey(seed), x, y, extra_fields=("num_steps",))
    jax.block_until_ready(mcmc.get_samples())
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    mcmc.run(jax.random.PRNGKey(seed), x, y, extra_fields=("num_steps",))
    jax.block_until_ready(mcmc.get_samples())
    seconds = time.perf_counter() - begun
    steps = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["num_steps"]).max(0).sum()
    f = Predictive(model, mcmc.get_samples(), return_sites=["f"])(jax.random.PRNGKey(2), x)["f"]
    least = float(effective_sample_size(np.asarray(f).reshape(4, draws, -1)).min())
    share = draws / (warmup + draws)
    return {
        "compile": first - seconds,
        "seconds": seconds,
        "us a step": seconds * share / float(steps) * 1e6,
        "min ESS": least,
        "min ESS/s": least / seconds,
    }


def svi(steps: int) -> dict[str, float]:
    """Microseconds a step of 1 and of 16 fits, mapped over their states; all steps in one compiled loop."""
    x, y = data()
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
        found[f"compile s, {restarts}"] = times[0] - times[1]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("gradient", "nuts", "svi"))
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.what == "svi":
        print(json.dumps(svi(args.steps)))
    else:
        print(json.dumps(gradient() if args.what == "gradient" else nuts(args.warmup, args.draws, args.seed)))
