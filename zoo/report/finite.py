"""The refusal of draws that are not finite: no mean, no distance and no score of them says anything."""

from __future__ import annotations

import numpy as np

from zoo.core.posterior import Posterior
from zoo.core.quantities import Quantity, quantities, test_inputs


class NotFiniteError(ValueError):
    """Draws of what is compared are NaN or infinite."""


def check_finite(label: str, found: dict[str, Quantity]) -> None:
    """Refuses a fit of which something compared is not finite in some draw.

    Args:
        label: What the fit is called.
        found: What is compared of it.

    Raises:
        NotFiniteError: Names the fit, the quantity, and in how many of its draws it is not finite.
    """
    for name, quantity in found.items():
        values = np.asarray(quantity.values)
        bad = (~np.isfinite(values)).sum((0, 1))
        if bad.any():
            worst, total = int(bad.argmax()), values.shape[0] * values.shape[1]
            others = int((bad > 0).sum()) - 1
            more = f" ({others} more of {name} in some draws)" if others else ""
            raise NotFiniteError(
                f"{label}: {quantity.labels[worst]} is not finite in {bad[worst]} of {total} draws{more}. Leave that "
                "row out of the inputs, or run the fit better: a smaller step or lr, a tighter prior."
            )


def check_fit(label: str, fit: Posterior) -> None:
    """`check_finite` of a fit at its test inputs."""
    check_finite(label, quantities(fit, fit.predict(test_inputs(fit))))
