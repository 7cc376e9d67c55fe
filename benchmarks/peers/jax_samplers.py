"""A sampler of NumPyro or BlackJAX on one of the problems: saves f and noise, prints seconds as JSON.

Warm-up and sampling are compiled ahead and then run once each; seconds are of compiling and of both. (NumPyro's
`mcmc.run` outside of `jax.jit` compiles anew at each call: seconds that are no part of its sampler's.) nuts: NumPyro's,
four chains, vectorised or (nuts_parallel) a host device each. chees: BlackJAX's, 16 chains, trajectory length learned
across them (chees_diagonal: a mass, too). mclmc: BlackJAX's microcanonical sampler without a Metropolis step, four
chains, which leaves a bias.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import initialize_model
from numpyro_models import MODELS, data

if "nuts_parallel" in sys.argv:  # before a device is asked for
    jax.config.update("jax_num_cpu_devices", 4)

CHEES_CHAINS, MCLMC_CHAINS, MCLMC_STEPS = 16, 4, 100


def timed(call):
    """(what it returns, seconds)."""
    begun = time.perf_counter()
    out = jax.block_until_ready(call())
    return out, time.perf_counter() - begun


def ahead(function, *args):
    """(what a function returns, seconds to compile it, seconds to run it)."""
    compiled, compiling = timed(lambda: jax.jit(function).lower(*args).compile())
    out, running = timed(lambda: compiled(*args))
    return out, compiling, running


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
    size = {"num_warmup": args.warmup, "num_samples": args.draws, "num_chains": 4}
    mcmc, fields = MCMC(NUTS(model), chain_method=method, progress_bar=False, **size), ("num_steps",)

    def warm(key):
        mcmc.post_warmup_state = None
        mcmc.warmup(key, x, y, extra_fields=fields)
        return mcmc.post_warmup_state

    def sample(key, state):
        mcmc.post_warmup_state = state
        mcmc.run(key, x, y, extra_fields=fields)
        return mcmc.get_samples(group_by_chain=True), mcmc.get_extra_fields(group_by_chain=True)["num_steps"]

    key = jax.random.PRNGKey(args.seed)
    state, first, warming = ahead(warm, key)
    (draws, steps), second, sampling = ahead(sample, key, state)
    kept = {name: draws[name] for name in ("f", "noise") if name in draws}
    return kept, (first + second, warming, sampling), float(steps.mean())


def chees(model, x, y, args):
    """BlackJAX's ChEES-HMC."""
    import blackjax
    import optax

    density, starts, outputs = target(model, x, y)
    mass = "diagonal" if args.what == "chees_diagonal" else None
    adapt, functions = blackjax.chees_adaptation(density, CHEES_CHAINS, mass_matrix_estimation=mass), {}

    def warm(key):
        start, rate = starts(key, CHEES_CHAINS), optax.adam(0.05)
        (state, found), _ = adapt.run(key, start, 0.1, rate, args.warmup, max_sampling_steps=args.draws)
        # Functions are the same whatever is learned, and no result of a compiled function: noted while it is traced.
        functions.update({name: value for name, value in found.items() if callable(value)})
        return state, {name: value for name, value in found.items() if not callable(value)}

    def sample(key, state, found):
        step = blackjax.dynamic_hmc(density, **found, **functions).step

        def one(carry, key):
            after, info = jax.vmap(step)(jax.random.split(key, CHEES_CHAINS), carry)
            return after, (jax.vmap(outputs)(after.position), info.num_integration_steps)

        _, (kept, steps) = jax.lax.scan(one, state, jax.random.split(key, args.draws))
        return {k: jnp.swapaxes(v, 0, 1) for k, v in kept.items()}, steps

    warm_key, run_key = jax.random.split(jax.random.PRNGKey(args.seed))
    learned, first, warming = ahead(warm, warm_key)
    (draws, steps), second, sampling = ahead(sample, run_key, *learned)
    return draws, (first + second, warming, sampling), float(steps.mean())


def mclmc(model, x, y, args):
    """BlackJAX's unadjusted microcanonical sampler; every 100th of its steps is a draw."""
    import blackjax

    density, starts, outputs = target(model, x, y)
    kernel = blackjax.mclmc.build_kernel()

    def warm(key, start):
        begin, tune = jax.random.split(key)
        state = blackjax.mclmc.init(position=start, logdensity_fn=density, rng_key=begin)
        steps = args.warmup * MCLMC_STEPS
        return blackjax.mclmc_find_L_and_step_size(kernel, steps, state, tune, logdensity_fn=density)[:2]

    def sample(key, state, found):
        step = blackjax.mclmc(density, found.L, found.step_size, inverse_mass_matrix=found.inverse_mass_matrix).step

        def draw(state, key):
            keys = jax.random.split(key, MCLMC_STEPS)
            state, _ = jax.lax.scan(lambda s, k: (step(k, s)[0], None), state, keys)
            return state, outputs(state.position)

        return jax.lax.scan(draw, state, jax.random.split(key, args.draws))[1]

    warm_key, run_key = jax.random.split(jax.random.PRNGKey(args.seed))
    many = [jax.random.split(key, MCLMC_CHAINS) for key in (warm_key, run_key)]
    learned, first, warming = ahead(jax.vmap(warm), many[0], starts(warm_key, MCLMC_CHAINS))
    draws, second, sampling = ahead(jax.vmap(sample), many[1], *learned)
    return draws, (first + second, warming, sampling), float(MCLMC_STEPS)


RUNS = {"nuts": nuts, "nuts_parallel": nuts, "chees": chees, "chees_diagonal": chees, "mclmc": mclmc}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=tuple(RUNS))
    parser.add_argument("problem", choices=tuple(MODELS))
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    draws, seconds, steps = RUNS[args.what](MODELS[args.problem], *data(args.data), args)
    np.savez(args.out, **{k: np.asarray(v, np.float32) for k, v in draws.items()})
    print(json.dumps({**dict(zip(("compile", "warmup", "sample"), seconds, strict=True)), "steps": steps}))
