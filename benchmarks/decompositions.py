"""The table of decompositions, entry by entry: microseconds and largest error with it, and with what torch has.

python benchmarks/decompositions.py

Each is a compiled graph of that one operation, in float32, of the sizes of the benchmarks' networks; the error is
relative to float64's value (of products: to the largest number in it).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def _softplus_slope(x: Tensor) -> Tensor:
    return torch.ops.aten.softplus_backward.default(torch.ones_like(x), x, 1.0, 40.0)


# name: the entries of the table that serve it, a function, the shapes of its arguments.
CASES: dict[str, tuple[tuple[Any, ...], Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "tanh, 80,000 numbers": ((torch.ops.aten.tanh.default,), torch.tanh, ((80_000,),)),
    "softplus, 16,000": (
        (torch.ops.aten.softplus.default,), lambda x: F.softplus(x, threshold=40.0), ((16_000,),)
    ),
    "its slope, 16,000": ((torch.ops.aten.softplus_backward.default,), _softplus_slope, ((16_000,),)),
    "rows x weights, 100 x 1 x 50": ((torch.ops.aten.mm.default,), torch.mm, ((100, 1), (1, 50))),
    "rows x weights, 100 x 50 x 1": ((torch.ops.aten.mm.default,), torch.mm, ((100, 50), (50, 1))),
    "rows x 4 chains, 1,000 x 25 x 4": (
        (torch.ops.aten.mm.default,), lambda x, w: torch.mm(x, w.t()), ((1000, 25), (4, 25))
    ),
    "shared rows, 16 x 506 x 13 x 50": (
        (torch.ops.aten.bmm.default,), lambda x, w: torch.bmm(x.expand(16, 506, 13), w), ((506, 13), (16, 13, 50))
    ),
}  # fmt: skip


def measured(function: Callable[..., Tensor], inputs: list[Tensor]) -> tuple[float, Tensor]:
    """Microseconds of the compiled function, the least of many calls, and its result."""
    from zoo.infer.graph import compile_graph

    compiled = compile_graph(lambda *given: (function(*given),), inputs)
    best, begun = float("inf"), time.perf_counter()
    while time.perf_counter() - begun < 0.5:
        start = time.perf_counter()
        for _ in range(20):
            out = compiled.call(*inputs)
        best = min(best, (time.perf_counter() - start) / 20)
    return best * 1e6, out[0].clone()


def main() -> None:
    from zoo.infer import graph

    torch.set_num_threads(1)
    table = dict(graph.DECOMPOSITIONS)
    print(f"{'':34s}  torch us    zoo us   ratio  torch error  zoo error")
    for name, (entries, function, shapes) in CASES.items():
        generator = torch.Generator().manual_seed(0)
        inputs = [torch.randn(shape, generator=generator) for shape in shapes]
        right = function(*(value.double() for value in inputs))
        scale = right.abs() if len(inputs) == 1 else right.abs().max()
        found = []
        for without in (entries, ()):
            graph.DECOMPOSITIONS = {key: value for key, value in table.items() if key not in without}
            took, value = measured(function, inputs)
            found.append((took, float(((value.double() - right).abs() / scale).max())))
        graph.DECOMPOSITIONS = table
        (theirs, error), (ours, own) = found
        print(f"{name:34s} {theirs:9.1f} {ours:9.1f} {ours / theirs:7.2f}  {error:11.1e} {own:10.1e}", flush=True)


if __name__ == "__main__":
    main()
