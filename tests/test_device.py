"""Nothing but the data's device: what would run on a GPU, traced with data on another device than the CPU.

The meta device stands for a GPU, which the machine of a test need not have: tensors on it have shapes and no numbers,
and a step's graph shows every operation, so one that mixes devices, or makes a tensor on the CPU, is found.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

import zoo
from zoo.cli import catalogue
from zoo.infer.centred import centred, may_centre
from zoo.infer.chains import chains_of, first_run
from zoo.infer.density import density
from zoo.infer.dispatch import methods
from zoo.infer.engine import step_on
from zoo.infer.graph import trace
from zoo.infer.methods.svi import set_up
from zoo.infer.step_source import Source
from zoo.infer.steps import make_step
from zoo.infer.track import first_state

META = torch.device("meta")
OWN: dict[str, Any] = {"minibatch_mh": {"batch_size": 4}, "minibatch_hmc": {"batch_size": 4, "steps_each": 1}}
SAID: dict[Any, Any] = {Tensor.item: 0.5, Tensor.__float__: 0.5, Tensor.__bool__: True, torch.equal: True}


class Places(TorchFunctionMode):
    """What torch refuses on meta alone: `torch.tensor(numbers)` within func.grad, and to say a number or yes or no."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, Tensor.new_tensor):
            like = args[0] if func is Tensor.new_tensor else torch.as_tensor(args[0])
            device, dtype = kwargs.get("device", like.device), kwargs.get("dtype", like.dtype)
            if torch.device(device) == META:
                return torch.zeros(np.shape(args[-1]), dtype=dtype, device=META)
        if func in SAID and args[0].device == META:
            return SAID[func]
        return func(*args, **kwargs)


class Devices(torch.fx.Interpreter):
    """Runs a graph and notes the operations that read, or make, a tensor of another device; numbers may be anywhere."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__(graph)
        self.elsewhere: list[str] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        out = super().run_node(n)
        given = self.fetch_args_kwargs_from_env(n)
        tensors = [v for v in pytree.tree_leaves((given, out)) if isinstance(v, Tensor) and v.dim()]
        if n.op != "output" and any(v.device != META for v in tensors):
            self.elsewhere.append(f"{n.target}{n.args}")
        return out


def on_meta(tree: Any) -> Any:
    return pytree.tree_map(lambda v: v.to(META) if isinstance(v, Tensor) else v, tree)


def elsewhere(function: Callable[..., Any], *trees: Any) -> list[str]:
    """What function(*trees) does on another device than theirs, all their tensors moved to meta."""
    leaves, spec = pytree.tree_flatten(on_meta(trees))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]

    def flat(*given: Tensor) -> Any:
        rest = iter(given)
        found = function(*pytree.tree_unflatten([next(rest) if isinstance(v, Tensor) else v for v in leaves], spec))
        return tuple(v for v in pytree.tree_leaves(found) if isinstance(v, Tensor))

    try:
        with Places():
            run = Devices(trace(flat, tensors))
    except RuntimeError as error:  # meta's own operators refuse some mixtures
        return [str(error)]
    out = run.run(*tensors)
    assert all(v.device == META for v in out)
    return run.elsewhere


def gradient(problem: zoo.Problem, centre: bool = False) -> list[str]:
    target = centred(density(problem)) if centre else density(problem)
    assert (target.intercept is not None) == centre
    both = torch.func.grad_and_value(lambda u, arguments: target.log_density(u, True, arguments, None))
    position = torch.zeros(3, target.dim, dtype=target.dtype)
    return elsewhere(torch.func.vmap(both, (0, None)), position, problem.arguments())


def models() -> list[Any]:
    """Graphs of convolutions take seconds each."""
    heavy = {"lenet", "autoencoder", "segmentation"}
    return [pytest.param(n, marks=pytest.mark.slow if n in heavy else ()) for n in sorted(catalogue.models())]


@pytest.mark.parametrize("name", models())
def test_gradients_of_every_model(name: str) -> None:
    assert gradient(zoo.load(name)) == []


@pytest.mark.parametrize("name", ["bnn_regression", "heteroscedastic_regression"])
def test_gradients_where_the_mean_of_f_is_sampled(name: str) -> None:
    """In place of all of a site, and of some of its numbers."""
    assert gradient(zoo.load(name), centre=True) == []


def test_a_model_that_makes_a_tensor_on_the_cpu_is_found() -> None:
    """The broken twin of all these tests."""

    def problem(scale: Callable[[Tensor], Tensor]) -> zoo.Problem:
        def model(x: Tensor, y: Tensor | None = None) -> None:
            w = pyro.sample("w", dist.Normal(x.new_zeros(3), scale(x)).to_event(1))
            with pyro.plate("data", len(x)):
                pyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)

        return zoo.Problem("own", model, zoo.Data(torch.ones(5, 3), torch.ones(5)))

    assert gradient(problem(lambda x: x.new_ones(3))) == []
    assert gradient(problem(lambda x: torch.ones(3))) != []


def kernels() -> dict[str, Any]:
    found = {name: importlib.import_module(path) for name, path in methods().items() if ".kernels." in path}
    assert len(found) > 10
    return found


def kernel_step(kernel: Any) -> list[str]:
    problem = zoo.load("bnn_regression", n=8, hidden=3)
    own = OWN.get(kernel.__name__.rpartition(".")[2], {})
    target = density(problem)
    target = centred(target) if may_centre(kernel, target.dim, own, "diagonal", True) else target
    run = first_run(target, kernel, own, "diagonal", chains_of(kernel, None), 0, "uniform")
    run.fill_noise()
    like = run.mass.scale
    tuned = {name: like.new_tensor(value) for name, value in run.tuned.items()}
    rest = (run.noise, tuned, run.mass, torch.tensor(1), run.setup.constants)

    def step(state: Any, arguments: Any, rest: Any) -> Any:
        return step_on(run.kernel, run.density, arguments, state, *rest)

    return elsewhere(step, run.state, problem.arguments(), rest)


def every_second_slow(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] * (i % 2)) for i, name in enumerate(sorted(names))]


@pytest.mark.parametrize("name", every_second_slow(kernels()))
def test_steps_of_every_kernel(name: str) -> None:
    assert kernel_step(kernels()[name]) == []


@pytest.mark.parametrize("guide", every_second_slow(catalogue.guides()))
def test_svi_of_every_guide(guide: str) -> None:
    problem = zoo.load("bnn_regression", n=8, hidden=3).to(device=META)
    with Places():
        fit = set_up(problem, guide, {}, (), 2, 0)
    source = Source(fit, 2, None, [(0, 0), (0, 1)])
    state = first_state(fit.start)
    pace = torch.tensor([1e-2, 0.9, 0.999])
    assert elsewhere(make_step(fit, None, 1.0), *state, source.noise(0)[0], pace, *source.rows(0)(0)) == []
