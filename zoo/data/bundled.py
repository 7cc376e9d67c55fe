"""Data sets that come with scikit-learn: by name, without a file or a network."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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


def scikit_learn(what: str) -> Any:
    """sklearn.datasets; ValueError that says how to get it where it is not installed."""
    try:
        return importlib.import_module("sklearn.datasets")
    except ImportError:
        raise ValueError(
            f"{what} comes with the package scikit-learn, which is not installed here. Install it: "
            "pip install scikit-learn."
        ) from None


def bundled(name: str) -> Table:
    """The table of one of `BUNDLED`, its targets last."""
    import numpy as np

    from .columns import Table

    datasets = scikit_learn(f"the set '{name}'")

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
