"""SGLD, all rows: q′ = q + (h/2) ∇log p + √h z, always taken: too wide a law, the wider the larger h.

The Langevin step without an accept step, h constant. There is no acceptance ratio, so no energy error.

Source: Ambrogioni, "Stochastic gradient Langevin dynamics".
"""

from __future__ import annotations

from typing import Any

from zoo.infer.kernels import sgld as kernel

__all__ = ["LENGTHS", "OPTIONS", "SIZE", "SIZES", "VERDICT", "kernel"]

SIZES = (0.01, 0.03, 0.1, 0.3)
LENGTHS = (0,)
SIZE = "h"
VERDICT = False
OPTIONS: dict[str, Any] = {"gamma": 0.0}  # the step is constant
