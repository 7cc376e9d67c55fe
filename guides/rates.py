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


def choose_sites(
    found: dict[str, Latent], sites: Sequence[str] | None, point: Sequence[str], what: str
) -> tuple[str, ...]:
    """The matrix sites in the model's order.

    Raises:
        ValueError: If there is none, or a name in `sites` is none.
    """
    able = [n for n, v in found.items() if v.value_dim in (MATRIX, KERNEL) and is_real(v.support) and n not in point]
    if not able:
        raise ValueError(
            f"{what} needs a weight matrix (a latent site with .to_event(2)) or kernels (.to_event(4)), the model has "
            f"{', '.join(f'{n} {tuple(v.value.shape)}' for n, v in found.items())}. Use guide='normal' there."
        )
    if sites is not None and (not sites or set(sites) - set(able)):
        raise ValueError(f"sites must name some of the weight matrices {able}, got {list(sites)}.")
    return tuple(name for name in able if sites is None or name in sites)


def per_layer(rate: Any, count: int) -> list[Any]:
    """One rate a layer from a number or a sequence of them.

    Raises:
        ValueError: For another number of rates than layers.
    """
    if isinstance(rate, Tensor) or hasattr(rate, "tolist"):
        rate = rate.tolist()
    if not isinstance(rate, Sequence) or isinstance(rate, str):
        return [rate] * count
    if len(rate) != count:
        raise ValueError(f"rate must be one number or {count}, one a weight layer, got {len(rate)}.")
    return list(rate)


def rates_where(where: str, sites: Mapping[str, int], rates: Sequence[Any]) -> list[Any]:
    """The rates of the sites that a word means, 0 for the others.

    where="all":      every matrix
    where="inner":    all but the first, which meets the data's inputs
    where="conv":     kernels only, event_dim 4

    Args:
        where: One of these.
        sites: {matrix site: its event_dim}, in the model's order.
        rates: One a site.

    Raises:
        ValueError: If it means none of them.
    """
    means = {
        name: where == "all" or (i > 0 if where == "inner" else event == KERNEL)
        for i, (name, event) in enumerate(sites.items())
    }
    if not any(means.values()):
        need = "a second matrix" if where == "inner" else "kernels (a latent site with .to_event(4))"
        raise ValueError(f"where={where!r} needs {need}, the matrix sites are {', '.join(sites)}. Use where='all'.")
    return [rate if means[name] else 0.0 for name, rate in zip(sites, rates, strict=True)]
