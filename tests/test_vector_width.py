"""Compiled loops take eight numbers a register where a register would hold sixteen."""

from __future__ import annotations

import pytest
import torch
import torch._inductor.config as config

from zoo.infer.graph import _settings


@pytest.mark.parametrize(("capability", "bits"), [("AVX512", 256), ("AVX2", None), ("DEFAULT", None)])
def test_the_width_of_vectors(capability: str, bits: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a graph is compiled for the CPU, and as it was found after that; on CUDA nothing is said."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    with config.patch({"cpp.simdlen": None}):
        with _settings(1, torch.device("cpu"), {}):
            assert config.cpp.simdlen == bits
        assert config.cpp.simdlen is None
        with _settings(1, torch.device("cuda"), {}):
            assert config.cpp.simdlen is None
