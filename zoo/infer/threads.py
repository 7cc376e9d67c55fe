"""How many threads a piece of work gets: one, unless it is large.

Below about 131,072 numbers an operation the threads' meeting costs what they save, or more; where another process
wants the cores as well, it costs ten times the work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

LARGE = 131_072
# What takes a few numbers out of a tensor, however large that is: a step's own out of a block of noise. `pieces` cuts x
# and y into pieces, and sets its own number of threads.
LOOK_UPS = {"index", "index_select", "select", "slice", "pieces"}


def threads_for(graph: torch.fx.GraphModule) -> int:
    """Threads for a traced graph: torch's present setting if it works on a tensor of 131,072 numbers, else one."""
    found = (getattr(node.meta.get("tensor_meta"), "shape", None) for node in graph.graph.nodes if not _stored(node))
    largest = max((shape.numel() for shape in found if shape is not None), default=0)
    return torch.get_num_threads() if largest >= LARGE else 1


def _stored(node: torch.fx.Node) -> bool:
    """Whether an input is only looked up in."""
    names = (getattr(getattr(user.target, "overloadpacket", None), "__name__", "") for user in node.users)
    return node.op == "placeholder" and all(name in LOOK_UPS for name in names)


def threads_for_size(rows: int, coordinates: int) -> int:
    """Threads for a model by rows x latent coordinates, which no layer's activations of one chain exceed."""
    return torch.get_num_threads() if rows * coordinates >= LARGE else 1


@contextlib.contextmanager
def running_on(threads: int) -> Iterator[None]:
    """Sets torch's number of threads (matrix products use them too), and puts it back as found."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
