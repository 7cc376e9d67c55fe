"""Data sets that come with scikit-learn: by name, without a file or a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .columns import Table

# name: (what the targets are called, whether they are a class); numbers of rows and inputs for `zoo list`
BUNDLED: dict[str, tuple[tuple[str, ...], bool]] = {
    "diabetes": (("progression",), False),
    "linnerud": (("Weight", "Waist", "Pulse"), False),
    "breast_cancer": (("class",), True),
    "iris": (("class",), True),
    "wine": (("class",), True),
    "digits": (("class",), True),
}


def bundled(name: str) -> Table:
    """The table of one of `BUNDLED`, its targets last."""
    import numpy as np
    from sklearn import datasets

    from .columns import Table

    options = {"scaled": False} if name == "diabetes" else {}
    bunch = getattr(datasets, f"load_{name}")(**options)
    columns = {str(n): bunch.data[:, i].astype(np.float64) for i, n in enumerate(bunch.feature_names)}
    targets, is_class = BUNDLED[name]
    if is_class and name != "digits":  # a digit's name is its number
        columns[targets[0]] = bunch.target_names[bunch.target].astype(object)
    else:
        values = bunch.target.astype(np.float64).reshape(len(bunch.data), -1)
        columns |= {target: values[:, i] for i, target in enumerate(targets)}
    return Table(columns, f"scikit-learn {name}")
