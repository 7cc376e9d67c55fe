"""`compile_graph(function, example)`: plain Python over Pyro's handlers into one fused function of tensors.

`make_fx` runs the function once on example tensors, straight through Pyro's handlers, and keeps only the tensor
operations; inductor fuses those. What is left has no Python, no handlers and no guards, which is where the time of
a small Bayesian neural network goes.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import logging
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from zoo.core.handlers import pyro_state
from zoo.core.no_result import NoResult

from . import elementwise, skinny
from .binary import OneExponential
from .equal_nodes import merge_equal
from .interrupt import interrupted
from .known import Untraceable, with_known
from .once import computed_once, unchanged
from .replay import written_code
from .threads import running_on, threads_for

log = logging.getLogger("zoo")
Tensors = tuple[Tensor, ...]
MOST_KEPT = 16
Made = tuple[Callable[..., Tensors], ModuleType | None]
_calls: dict[Any, Made] = {}
COMPILING = "compiling, about 12 s, cached next time"


class Compiled(NamedTuple):
    """A compiled function of a flat tuple of tensors, how it was made, how long that took, threads to run it on.

    `code` is the module that inductor wrote for it, for `zoo.infer.replay`; None where it is not known.
    """

    call: Callable[..., Tensors]
    engine: str
    seconds: float
    threads: int
    code: ModuleType | None = None


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {**elementwise.DECOMPOSITIONS, **skinny.DECOMPOSITIONS}


def trace(
    function: Callable[..., Tensors], example: Sequence[Tensor], fixed: Collection[int] = ()
) -> torch.fx.GraphModule:
    """The graph of tensor operations of `function(*example)`.

    Every example tensor is cloned first: a tensor passed twice would make the tracer merge the two inputs. What no
    result depends on is left out: a guide's draws that the model takes in another form, say.

    Raises:
        Untraceable: Where its course depends on the numbers of its inputs.
    """
    separate = [e.clone() for e in example]
    with pyro_state(validate=False), OneExponential():
        try:
            graph = make_fx(function, decomposition_table=DECOMPOSITIONS)(*separate)
        except RuntimeError:  # the tracer's own, where a number is asked for
            graph = _with_numbers(function, separate)
    forget_source(graph)
    graph.graph.eliminate_dead_code()
    if example and example[0].device.type == "cpu":
        skinny.with_fixed(graph.graph, unchanged(graph.graph, fixed))
        skinny.add_outside(graph.graph)
    merge_equal(graph.graph)
    graph.recompile()
    forget_source(graph)
    return graph


def _with_numbers(function: Callable[..., Tensors], example: Sequence[Tensor]) -> torch.fx.GraphModule:
    try:
        return make_fx(with_known(function), decomposition_table=DECOMPOSITIONS)(*example)
    except RuntimeError as error:
        raise Untraceable(str(error)) from error


def forget_source(graph: torch.fx.GraphModule) -> None:
    """Drops the text of a graph's code, which torch and linecache else keep for ever: 20 kB a fit."""
    name = type(graph).forward.__code__.co_filename
    linecache.cache.pop(name, None)
    getattr(getattr(torch.fx.graph_module, "_loader", None), "eval_cache", {}).pop(name, None)


def compile_graph(
    function: Callable[..., Tensors], example: Sequence[Tensor], fixed: Collection[int] = (), **settings: Any
) -> Compiled:
    """Compiles a function of flat tensors; where there is no compiler, says so and returns it uncompiled.

    Args:
        function: Takes tensors like `example`, returns a flat tuple of tensors; nothing random, no branch on a
            tensor's value. Shapes, dtypes and devices are baked in: callers check what they pass.
        example: Tensors of the shapes to serve.
        fixed: Places of inputs that are given as they are in `example` at every call: what depends on them alone is
            computed now.
        settings: Of torch._inductor.config, for this graph alone.

    Returns:
        `Compiled`: engine "compiled", or "eager" where compiling failed.

    Raises:
        NoResult: Where a signal that ends the run ended the compiler.
    """
    start = time.perf_counter()
    graph = trace(function, example, fixed)
    _own_constants(graph)
    more = _once(graph, fixed, example)
    example = (*example, *more)
    threads = threads_for(graph)
    try:
        call, code = _kept(
            (key_of(graph, example), threads, tuple(sorted(settings.items()))),
            threads,
            lambda: _inductor(graph, example, threads, settings),
        )
        call(*[e.clone() for e in example])
    except Exception as error:  # inductor raises many kinds: no compiler, no header, an unsupported operator
        if interrupted():  # Ctrl-C reaches the compiler, too: a run that is ended is not one without a compiler
            raise NoResult("ended while compiling (interrupted). Make the same call again.") from None
        log.warning("could not compile (%s); running uncompiled", str(error).strip().splitlines()[0][:200])
        return Compiled(_with(_plain(graph), more), "eager", time.perf_counter() - start, threads)
    return Compiled(_with(call, more), "compiled", time.perf_counter() - start, threads, code)


def _once(graph: torch.fx.GraphModule, fixed: Collection[int], example: Sequence[Tensor]) -> Tensors:
    """Takes out of a graph what depends on fixed inputs alone; its values, which the graph then takes last."""
    first = computed_once(graph, fixed)
    if first is None:
        return ()
    values = _plain(first)(*example)
    forget_source(graph)
    forget_source(first)
    return values


def _with(call: Callable[..., Tensors], more: Tensors) -> Callable[..., Tensors]:
    """The same function with its last arguments given."""
    return (lambda *given: call(*given, *more)) if more else call


def _own_constants(graph: torch.fx.GraphModule) -> None:
    """Gives a graph copies of the tensors in it: a graph that is kept must not see its caller's written over."""
    for node in graph.graph.find_nodes(op="get_attr"):
        value = getattr(graph, node.target, None)
        if isinstance(value, Tensor):
            own, kind = value.detach().clone(), torch.nn.Parameter
            setattr(graph, node.target, kind(own, False) if isinstance(value, kind) else own)


def key_of(graph: torch.fx.GraphModule, example: Sequence[Tensor]) -> Any:
    """What tells a graph from others: its operations, the tensors in it, its inputs' shapes."""
    operations = hashlib.blake2b(str(graph.graph).encode())
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = getattr(graph, node.target)
            operations.update(repr((value.shape, value.dtype)).encode())
            # A single number that was expanded has stride 0 and is called contiguous all the same.
            plain = value.detach().cpu().clone(memory_format=torch.contiguous_format).reshape(-1)
            operations.update(plain.view(torch.uint8).numpy().tobytes())
    return operations.hexdigest(), tuple((e.shape, e.stride(), e.dtype, str(e.device)) for e in example)


def _kept(key: Any, threads: int, make: Callable[[], Callable[..., Tensors]]) -> Made:
    """The function that was last made for this key, and its code: a process that fits again compiles nothing."""
    made = _calls.pop(key, None)
    if made is None:
        with running_on(threads):
            made = written_code(make)
    _calls[key] = made  # the newest last
    while len(_calls) > MOST_KEPT:
        del _calls[next(iter(_calls))]
    return made


def _plain(graph: torch.fx.GraphModule) -> Callable[..., Tensors]:
    def call(*args: Tensor) -> Tensors:
        with torch.no_grad():
            return tuple(graph(*args))

    return call


# Of one stored value a CPU's loops may recompute so many operations before it is stored after all. Inductor's own 50
# lets a network's whole layer be computed inside the sum over it, in loops that vectorise badly: 3 x the time.
MOST_OPERATIONS = 15


@contextlib.contextmanager
def _settings(threads: int, device: torch.device, more: dict[str, Any]) -> Iterator[None]:
    """Bakes the thread count into the code, so that sums come out the same under any later setting.

    Leaves out inductor's check of every tensor's size at every call: a quarter of the time of a small graph. On the CPU
    a product and a sum are one operation, rounded once.
    """
    import torch._inductor.config as config

    own: dict[str, Any] = {"cpp.threads": threads, "size_asserts": False, "alignment_asserts": False}
    if device.type == "cpu":
        own |= {"realize_opcount_threshold": MOST_OPERATIONS, "cpp.enable_floating_point_contract_flag": "fast"}
    # A name that this version of torch does not know is left out: it says how, not what.
    known = config.get_config_copy()
    with config.patch({name: value for name, value in own.items() if name in known} | more):
        yield


def _inductor(
    graph: torch.fx.GraphModule, example: Sequence[Tensor], threads: int, settings: dict[str, Any]
) -> Callable[..., Tensors]:
    """Inductor on the bare graph: no guards, a third of the cost a call. Private names: else torch.compile."""
    with _settings(threads, example[0].device, settings), warnings.catch_warnings():
        # torch warns of its own use of torch.jit and of options to come: nothing that a caller could change.
        warnings.simplefilter("ignore")
        try:
            import torch._inductor
            from torch._guards import TracingContext, tracing
            from torch._subclasses import FakeTensorMode
            from torch.fx.experimental.symbolic_shapes import ShapeEnv
        except ImportError:
            return torch.compile(graph, dynamic=False)
        mode = FakeTensorMode(shape_env=ShapeEnv())
        with tracing(TracingContext(mode)):
            fake = [mode.from_tensor(e, static_shapes=True) for e in example]
            return torch._inductor.compile(graph, fake)
