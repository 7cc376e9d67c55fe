"""A call on CUDA, recorded once and played back: one launch for all that it does.

A small network's step is many short kernels, each launched from Python. A CUDA graph launches all of them together, on
the memory of the recording.

Source: torch.cuda.CUDAGraph; NVIDIA, "CUDA C++ Programming Guide", CUDA Graphs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

log = logging.getLogger("zoo")
Tensors = tuple[Tensor, ...]


def recorded(call: Callable[..., Tensors], inputs: Sequence[Tensor]) -> Callable[[], Tensors]:
    """A function of nothing that does what call(*inputs) does, on these very tensors, each time it is called.

    Recording runs nothing: `inputs` stay as they are until the first playback.

    Args:
        call: Has been called before, so that libraries have their workspaces.
        inputs: Tensors on one CUDA device.

    Returns:
        The playback, whose results the next one writes over; plain calls, which is said, where the call cannot be
        recorded: one that waits for the CPU.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.device(inputs[0].device), torch.cuda.graph(graph):
            out = call(*inputs)
    except RuntimeError as error:
        log.warning("no CUDA graph of this step (%s); its kernels are launched one by one", str(error).split("\n")[0])
        return lambda: call(*inputs)

    def again() -> Tensors:
        graph.replay()
        return out

    return again
