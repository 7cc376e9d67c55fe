"""Which weight matrices of a model a guide multiplies by noise, and the rate of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from guides.prototype import Latent
from guides.supports import is_real

KERNEL, MATRIX = 4, 2  # event_dim of (out, in, height, width) and of (in, out)
WHERE = ("all", "inner", "conv")


def check_where(where: str) -> None:
    """ValueError for a word that is not known."""
    if where not in WHERE:
        raise ValueError(f"where must be 'all', 'inner' or 'conv', got {where!r}. Leave it out for all weight layers.")


def matrix_sites(found: Mapping[str, Latent]) -> dict[str, int]:
    """{weight matrix or kernels: its event_dim}, all that the model has, in its order."""
    return {n: v.value_dim for n, v in found.items() if v.value_dim in (MATRIX, KERNEL) and is_real(v.support)}


def choose_sites(
    found: dict[str, Latent], sites: Sequence[str] | None, point: Sequence[str], what: str
) -> tuple[str, ...]:
    """The matrix sites to mask, in the model's order.

    Raises:
        ValueError: If there is none, or a name in `sites` is none.
    """
    able = [name for name in matrix_sites(found) if name not in point]
    if not able:
        raise ValueError(
            f"{what} needs a weight matrix (a latent site with .to_event(2)) or kernels (.to_event(4)), the model has "
            f"{', '.join(f'{n} {tuple(v.value.shape)}' for n, v in found.items())}. Use guide='normal' there."
        )
    if sites is not None and (not sites or set(sites) - set(able)):
        raise ValueError(f"sites must name some of the weight matrices {able}, got {list(sites)}.")
    return tuple(name for name in able if sites is None or name in sites)


def per_layer(rate: Any, every: Sequence[str], chosen: Sequence[str]) -> dict[str, Any]:
    """{layer to mask: its rate} from a number or a sequence of them.

    Args:
        rate: One number; or one for each of the model's layers, or for each of those to mask.
        every: The model's layers.
        chosen: Those to mask.

    Raises:
        ValueError: For another number of rates than layers.
    """
    if isinstance(rate, Tensor) or hasattr(rate, "tolist"):
        rate = rate.tolist()
    if not isinstance(rate, Sequence) or isinstance(rate, str):
        return dict.fromkeys(chosen, rate)
    if len(rate) == len(every):
        each = dict(zip(every, rate, strict=True))
        return {name: each[name] for name in chosen}
    if len(rate) != len(chosen):
        raise ValueError(f"rate must be one number or {len(every)}, one a weight layer, got {len(rate)}.")
    return dict(zip(chosen, rate, strict=True))


def rates_where(where: str, every: Mapping[str, int], rates: Mapping[str, Any]) -> dict[str, Any]:
    """The rates of the layers that a word means, 0 for the others.

    where="all":      every matrix
    where="inner":    all but the model's first, which meets the data's inputs
    where="conv":     kernels only, event_dim 4

    Args:
        where: One of these.
        every: {matrix site of the model: its event_dim}, in the model's order.
        rates: {layer to mask: its rate}.

    Raises:
        ValueError: If it means none of them.
    """
    means = {
        name: where == "all" or (i > 0 if where == "inner" else event == KERNEL)
        for i, (name, event) in enumerate(every.items())
    }
    if not any(means[name] for name in rates):
        need = "a second matrix" if where == "inner" else "kernels (a latent site with .to_event(4))"
        raise ValueError(f"where={where!r} needs {need}, the matrix sites are {', '.join(rates)}. Use where='all'.")
    return {name: rate if means[name] else 0.0 for name, rate in rates.items()}
