"""`Data` and `Problem`: what a model is run on."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

NAMES = {"f": "f", "y": "y", "plate": "data"}


def finite_tensor(value: Any, name: str) -> Tensor:
    """A finite tensor from a tensor, an array or a list; float64 arrays stay float64."""
    if not isinstance(value, Tensor):
        try:
            value = torch.as_tensor(np.asarray(value))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} must be a tensor or an array of numbers, got {type(value).__name__} ({error})."
            ) from None
    if value.is_complex() or value.layout is not torch.strided:
        raise ValueError(f"{name} must be a dense tensor of real numbers, got {value.dtype}, {value.layout}.")
    if value.is_floating_point() and value.device.type != "meta":
        bad = int((~torch.isfinite(value)).sum())
        if bad:
            raise ValueError(
                f"{name} must be finite, got {bad} NaN or infinite of {value.numel()} values. "
                "Drop those rows or fill them in first."
            )
    return value


def _inputs(value: Any, name: str) -> Tensor:
    x = finite_tensor(value, name)
    if x.dim() < 2:
        advice = f"Add a feature axis: {name}[:, None]." if x.dim() == 1 else "Give one row a data point."
        raise ValueError(f"{name} must be (n, d), got {tuple(x.shape)}. {advice}")
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def _targets(value: Any, name: str, x: Tensor) -> Tensor:
    y = finite_tensor(value, name)
    if y.dim() == 2 and y.shape[1] == 1:
        raise ValueError(
            f"{name} must be (n,) or (n, k) with k > 1, got {tuple(y.shape)}. Drop the last axis: {name}[:, 0]."
        )
    if y.dim() == 0 or y.shape[0] != x.shape[0]:
        raise ValueError(
            f"{name} must have one row for each of the {x.shape[0]} rows of x, got shape {tuple(y.shape)}. "
            "Check that both come from the same table."
        )
    return y


@dataclasses.dataclass(frozen=True, repr=False)
class Data:
    """Inputs and targets, with an optional held-out set.

    Args:
        x: Inputs (n, d). A model without inputs has x of shape (n, 0).
        y: Targets (n,) or (n, k), or None where only the prior is of interest.
        x_test: Held-out inputs (m, d).
        y_test: Held-out targets (m,) or (m, k).
        info: JSON-able facts: x_names, y_name, classes, y_loc, y_scale (original y = y_loc + y_scale * y),
            source.

    Raises:
        ValueError: For 1-D x, no rows, y of another length or of shape (n, 1), NaN or infinity.
    """

    x: Tensor
    y: Tensor | None = None
    x_test: Tensor | None = None
    y_test: Tensor | None = None
    info: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not isinstance(self.info, dict):
            raise ValueError(
                f"info must be a dict of facts, got {type(self.info).__name__}. Give info={{'y_name': 'y'}}."
            )
        put(self, "x", _inputs(self.x, "x"))
        if self.x.shape[0] == 0:
            raise ValueError(
                f"x must have at least one row, got {tuple(self.x.shape)}. "
                'For the model before any data use zoo.run(problem, "prior").'
            )
        if self.y is not None:
            put(self, "y", _targets(self.y, "y", self.x))
        if self.x_test is not None:
            put(self, "x_test", _inputs(self.x_test, "x_test"))
            if self.x_test.shape[0] == 0:
                raise ValueError(f"x_test must have at least one row, got {tuple(self.x_test.shape)}. Leave it out.")
            if self.x_test.shape[1:] != self.x.shape[1:]:
                raise ValueError(
                    f"x_test must have the features of x {tuple(self.x.shape[1:])}, "
                    f"got {tuple(self.x_test.shape[1:])}. Prepare both in the same way."
                )
        if self.y_test is not None:
            if self.x_test is None:
                raise ValueError("y_test was given without x_test. Give both or neither.")
            put(self, "y_test", _targets(self.y_test, "y_test", self.x_test))

    def to(self, *, device: Any = None, dtype: torch.dtype | None = None) -> Data:
        """The same data on another device, floating-point tensors in another dtype."""
        moved = {
            name: _move(value, device, dtype)
            for name in ("x", "y", "x_test", "y_test")
            if (value := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, **moved)

    def __repr__(self) -> str:
        parts = {name: getattr(self, name) for name in ("x", "y", "x_test", "y_test")}
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in parts.items() if value is not None)
        return f"Data({shapes}{'; info: ' + ', '.join(self.info) if self.info else ''})"

    @property
    def hash(self) -> str:
        """Twelve hex digits that identify the numbers (as float32 values), whatever their device or dtype."""
        return _digest({name: getattr(self, name) for name in ("x", "y", "x_test", "y_test")})


def _move(value: Any, device: Any, dtype: torch.dtype | None) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.to(device=device, dtype=dtype if value.is_floating_point() else None)


def _digest(items: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(items):
        value = items[name]
        if isinstance(value, Tensor):
            # float32 before hashing: the same table in float32 and in float64 is the same data.
            number = value.detach().cpu()
            number = number.to(torch.float32) if number.is_floating_point() else number.to(torch.int64)
            digest.update(f"{name}{tuple(value.shape)}".encode() + number.numpy().tobytes())
        else:
            digest.update(f"{name}={value!r}".encode())
    return digest.hexdigest()[:12]


@dataclasses.dataclass(frozen=True)
class Exact:
    """What is known in closed form.

    Args:
        posterior: {site: Distribution}, each site's exact posterior, and {(site, site, ...): Distribution} the
            joint one of sites that depend on each other: draws come from it, over the sites' values flattened
            row by row and put end to end in the key's order. Sites in no such key are independent. A scalar
            site's distribution is scalar; a matrix site's may be over its values flattened row by row.
        predictive: x (m, d) -> Distribution of a new y (m,) or (m, k), noise included.
        log_evidence: log p(y | x) of the training targets, in nats.
    """

    posterior: Mapping[Any, Distribution]
    predictive: Callable[[Tensor], Distribution]
    log_evidence: float


@dataclasses.dataclass(frozen=True, repr=False)
class Problem:
    """A Pyro model, its data and its hyperparameters: all that an inference needs.

    Args:
        name: Any word; shown in tables.
        model: A Pyro function. With `Data` it is called as model(x, y, **hyper), with a dict as
            model(**data, **hyper).
        data: `Data`, or a dict of the model's own arguments.
        hyper: Keyword arguments of the model that are not data.
        names: What the model calls its noise-free output `f`, its observed site `y` and its data plate `plate`.
        compare: Sites that may be compared between posteriors (identifiable ones); None: `f` where there is
            one, else every latent site.
        guide: A guide factory for `svi`, or None for the method's default.
        exact: (data, **hyper) -> Exact, or None; with a keyword `rows` it answers after the first rows too.
    """

    name: str
    model: Callable[..., Any]
    data: Data | dict[str, Any]
    hyper: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)
    names: dict[str, str] = dataclasses.field(default_factory=lambda: dict(NAMES), kw_only=True)
    compare: tuple[str, ...] | None = dataclasses.field(default=None, kw_only=True)
    guide: Callable[..., Any] | None = dataclasses.field(default=None, kw_only=True)
    exact: Callable[..., Exact] | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise TypeError(f"model must be a Pyro function, got {type(self.model).__name__}.")
        if not isinstance(self.data, (Data, dict)):
            raise TypeError(
                f"data must be zoo.Data or a dict of the model's arguments, got {type(self.data).__name__}. "
                "Wrap tensors: zoo.Data(x, y)."
            )
        if isinstance(self.data, dict):
            arrays = (Tensor, np.ndarray)
            checked = {k: finite_tensor(v, k) if isinstance(v, arrays) else v for k, v in self.data.items()}
            object.__setattr__(self, "data", checked)
        unknown = set(self.names) - set(NAMES)
        if unknown:
            raise ValueError(f"names may rename {sorted(NAMES)}, got {sorted(unknown)}.")
        object.__setattr__(self, "names", {**NAMES, **self.names})

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The model's arguments with the data in place: model(*args, **kwargs) scores the data."""
        if isinstance(self.data, Data):
            return (self.data.x, self.data.y), dict(self.hyper)
        return (), {**self.data, **self.hyper}

    def inputs(self, x: Any = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The model's arguments for prediction: targets left out where the zoo knows which they are.

        Args:
            x: New inputs (m, d), or a dict of arguments for a model on a dict; None: the training inputs. Where
                the data came from a table also raw rows: a file, a pandas DataFrame or a dict of columns.
        """
        if isinstance(self.data, Data):
            return (self.data.x if x is None else self._new_inputs(x), None), dict(self.hyper)
        if x is not None and not isinstance(x, dict):
            raise TypeError(f"This problem's data are a dict: predict takes a dict, got {type(x).__name__}.")
        return (), {**self.data, **(x or {}), **self.hyper}

    def _new_inputs(self, x: Any) -> Tensor:
        from zoo.data.files import is_table

        own = self.tensor
        if is_table(x):
            from zoo.data.ready import new_inputs

            x = new_inputs(self.data, x)  # type: ignore[arg-type]
        given = _inputs(x, "x")
        if given.shape[0] == 0 or given.device.type == "meta":
            where = "on 'meta', which holds no numbers" if given.shape[0] else f"of shape {tuple(given.shape)}"
            raise ValueError(
                f"x must have at least one row of numbers, got a tensor {where}. Give the rows to predict."
            )
        new = _inputs(given.to(own), "x")  # again: 1e39 is finite, but not in float32
        if new.shape[1:] != own.shape[1:]:
            raise ValueError(
                f"x must be (m, {', '.join(map(str, own.shape[1:]))}) as in training, got {tuple(new.shape)}. "
                "Prepare new inputs as the training inputs were."
            )
        low, high = self.data.info.get("x_range") or (-math.inf, math.inf)  # type: ignore[union-attr]
        if new.numel() and not (low <= float(new.min()) and float(new.max()) <= high):
            raise ValueError(
                f"x must lie in [{low:g}, {high:g}] as in training, got {float(new.min()):g} to {float(new.max()):g}. "
                "Scale it as the training inputs were: bytes by 255."
            )
        return new

    def to(self, *, device: Any = None, dtype: torch.dtype | None = None) -> Problem:
        """The same problem with its tensors (and tensor hyperparameters) moved."""
        if isinstance(self.data, Data):
            data: Any = self.data.to(device=device, dtype=dtype)
        else:
            data = {k: _move(v, device, dtype) for k, v in self.data.items()}
        hyper = {k: _move(v, device, dtype) for k, v in self.hyper.items()}
        return dataclasses.replace(self, data=data, hyper=hyper)

    def __repr__(self) -> str:
        data = self.data if isinstance(self.data, Data) else f"data: {', '.join(self.data)}"
        hyper = "".join(f", {name}={value!r}" for name, value in self.hyper.items() if not isinstance(value, Tensor))
        return f"Problem({self.name}{hyper}; {data!s})"

    @property
    def tensor(self) -> Tensor:
        """A floating-point tensor of the data: what device and dtype follow."""
        if isinstance(self.data, Data):
            return self.data.x
        floats = [v for v in self.data.values() if isinstance(v, Tensor) and v.is_floating_point()]
        tensors = [v for v in self.data.values() if isinstance(v, Tensor)]
        like = torch.empty(0, device=tensors[0].device) if tensors else torch.empty(0)
        return floats[0] if floats else like

    @property
    def hash(self) -> str:
        """Twelve hex digits that identify the data's numbers."""
        return self.data.hash if isinstance(self.data, Data) else _digest(self.data)
