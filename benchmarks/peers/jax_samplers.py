"""A sampler of NumPyro or BlackJAX on one of the problems: saves f and noise, prints seconds as JSON.

Everything is compiled by a first run and timed in a second with the same key; nuts with --once runs for one iteration,
and then in full, less the seconds of the first, which compiled as much. nuts: NumPyro's, four chains, vectorised
or (nuts_parallel) a host device each. chees: BlackJAX's, 16 chains, trajectory length learned across them. mclmc:
BlackJAX's microcanonical sampler without a Metropolis step, four chains, which leaves a bias.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

if "nuts_parallel" in sys.argv:  # before jax is imported
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model
from numpyro_models import MODELS, data

CHEES_CHAINS, MCLMC_CHAINS, MCLMC_STEPS = 16, 4, 100


def timed(call):
    """(what it returns, seconds)."""
    begun = time.perf_counter()
    out = jax.block_until_ready(call())
    return out, time.perf_counter() - begun


def target(model, x, y):
    """Log density over flat unconstrained positions, a start by chain, and what turns positions into f and noise."""
    info = initialize_model(jax.random.PRNGKey(0), model, model_args=(x, y), dynamic_args=False)
    post = info.postprocess_fn
    flat, apart = ravel_pytree(info.param_info.z)

    def outputs(position):
        values = post(apart(position))
        return {"f": values["f"], **({"noise": values["noise"]} if "noise" in values else {})}

    def starts(key, chains):
        return jax.random.uniform(key, (chains, flat.size), minval=-2, maxval=2)

    return lambda position: -info.potential_fn(apart(position)), starts, outputs


def nuts(model, x, y, args):
    """Four chains of NumPyro's NUTS."""
    method = "parallel" if args.what == "nuts_parallel" else "vectorized"

    def sampler(warmup, count):
        kept = {"num_warmup": warmup, "num_samples": count, "num_chains": 4}
        return MCMC(NUTS(model), chain_method=method, progress_bar=False, **kept)

    def call(mcmc):
        mcmc.run(jax.random.PRNGKey(args.seed), x, y, extra_fields=("num_steps",))
        return mcmc.get_samples(group_by_chain=True)

    full = sampler(args.warmup, args.draws)
    _, first = timed(lambda: call(sampler(1, 1) if args.once else full))
    draws, second = timed(lambda: call(full))
    steps = np.asarray(full.get_extra_fields(group_by_chain=True)["num_steps"])
    compiling, run = (first, second - first) if args.once else (first - second, second)
    return {k: draws[k] for k in ("f", "noise") if k in draws}, compiling, run, float(steps.mean())


def chees(model, x, y, args):
    """BlackJAX's ChEES-HMC."""
    import blackjax
    import optax

    density, starts, outputs = target(model, x, y)
    adapt = blackjax.chees_adaptation(density, CHEES_CHAINS, mass_matrix_estimation=args.mass)

    @jax.jit
    def whole():
        warm_key, run_key = jax.random.split(jax.random.PRNGKey(args.seed))
        start, rate = starts(warm_key, CHEES_CHAINS), optax.adam(0.05)
        (state, found), _ = adapt.run(warm_key, start, 0.1, rate, args.warmup, max_sampling_steps=args.draws)
        step = blackjax.dynamic_hmc(density, **found).step

        def one(carry, key):
            after, info = jax.vmap(step)(jax.random.split(key, CHEES_CHAINS), carry)
            return after, (jax.vmap(outputs)(after.position), info.num_integration_steps)

        _, (kept, steps) = jax.lax.scan(one, state, jax.random.split(run_key, args.draws))
        return {k: jnp.swapaxes(v, 0, 1) for k, v in kept.items()}, steps

    (_, first), ((draws, steps), second) = timed(whole), timed(whole)
    return draws, first - second, second, float(steps.mean())


def mclmc(model, x, y, args):
    """BlackJAX's unadjusted microcanonical sampler; every 100th of its steps is a draw."""
    import blackjax

    density, starts, outputs = target(model, x, y)

    kernel = blackjax.mclmc.build_kernel()

    def chain(key, start):
        begin, tune, run = jax.random.split(key, 3)
        state = blackjax.mclmc.init(position=start, logdensity_fn=density, rng_key=begin)
        steps = args.warmup * MCLMC_STEPS
        state, found, *_ = blackjax.mclmc_find_L_and_step_size(kernel, steps, state, tune, logdensity_fn=density)
        step = blackjax.mclmc(density, found.L, found.step_size, inverse_mass_matrix=found.inverse_mass_matrix).step

        def draw(state, key):
            keys = jax.random.split(key, MCLMC_STEPS)
            state, _ = jax.lax.scan(lambda s, k: (step(k, s)[0], None), state, keys)
            return state, outputs(state.position)

        return jax.lax.scan(draw, state, jax.random.split(run, args.draws))[1]

    key = jax.random.PRNGKey(args.seed)
    whole = jax.jit(lambda: jax.vmap(chain)(jax.random.split(key, MCLMC_CHAINS), starts(key, MCLMC_CHAINS)))
    (_, first), (draws, second) = timed(whole), timed(whole)
    return draws, first - second, second, float(MCLMC_STEPS)


RUNS = {"nuts": nuts, "nuts_parallel": nuts, "chees": chees, "mclmc": mclmc}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=tuple(RUNS))
    parser.add_argument("problem", choices=tuple(MODELS))
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--once", action="store_true", help="of nuts: run in full only once")
    parser.add_argument("--mass", choices=("diagonal",), help="of chees; left out: none")
    args = parser.parse_args()
    draws, compiling, seconds, steps = RUNS[args.what](MODELS[args.problem], *data(args.data), args)
    np.savez(args.out, **{k: np.asarray(v, np.float32) for k, v in draws.items()})
    print(json.dumps({"compile": max(0.0, compiling), "run": seconds, "steps": steps}))
