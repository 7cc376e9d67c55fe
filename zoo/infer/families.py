"""Which approximating family `guide=` means: a name, a factory, a Pyro autoguide class or instance."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

from pyro.infer import autoguide
from pyro.infer.autoguide import AutoGuide, AutoMessenger

import guides
from guides.point import with_points
from zoo.core.words import nearest

Factory = Callable[[Callable[..., Any]], Callable[..., Any]]

PARTS = "it is a part of other guides. Use AutoNormal, or a function model -> guide"
# Autoguides that svi can't fit from their class alone, and what serves instead.
REFUSED = {
    "AutoCallable": PARTS,
    "AutoContinuous": PARTS,
    "AutoGuide": PARTS,
    "AutoGuideList": PARTS,
    "AutoMessenger": PARTS,
    "AutoDiscreteParallel": "gradients need continuous latents. Sum discrete ones out of the model",
    "AutoLaplaceApproximation": "until its Hessian is taken it is a point. Use the method 'laplace', or AutoDelta",
}


def families() -> dict[str, Callable[..., Any]]:
    """{name: factory}: every file in guides/ with a function of its own name is a family."""
    found = {}
    for module in pkgutil.iter_modules(guides.__path__):
        function = getattr(importlib.import_module(f"guides.{module.name}"), module.name, None)
        if function is not None:
            found[module.name] = function
    return found


def autoguides() -> dict[str, type]:
    """{name: class} of Pyro's autoguides."""
    return {name: getattr(autoguide, name) for name in autoguide.__all__ if name.startswith("Auto")}


def _named(guide: str) -> Callable[..., Any]:
    known: dict[str, Callable[..., Any]] = {**autoguides(), **families()}
    if guide not in known:
        usable = [name for name in known if name not in REFUSED]
        raise ValueError(nearest(guide, usable, "guide"))
    return known[guide]


def _check_usable(guide: Any) -> None:
    kind = guide if inspect.isclass(guide) else type(guide)
    reason = REFUSED.get(kind.__name__, "") if issubclass(kind, (AutoGuide, AutoMessenger)) else ""
    if reason and not (isinstance(guide, AutoGuide) and reason is PARTS):  # a list that was filled is a guide
        raise ValueError(f"svi can't fit guide={kind.__name__}: {reason}.")
    if isinstance(guide, AutoMessenger):
        raise ValueError(f"svi can't copy an instance of {kind.__name__}. Give the class, options in guide_options.")


def choose(guide: Any, options: dict[str, Any], point: Sequence[str]) -> Factory:
    """model -> guide for whatever the user named.

    Args:
        guide: A name in guides/ or of a Pyro autoguide, a function model -> guide, a Pyro autoguide class, or an
            autoguide that was made for this model (it is copied, its parameters are not touched).
        options: Keyword arguments of the family.
        point: Sites that get point estimates instead.

    Raises:
        ValueError: For an unknown name or option, with the nearest right one.
        TypeError: For anything else.
    """
    if isinstance(guide, str):
        guide = _named(guide)
    _check_usable(guide)
    if isinstance(guide, AutoGuide):
        if options or point:
            raise ValueError("guide_options and point= need a guide class or name, got an instance. Give the class.")
        return lambda model: _copied(guide)
    if not callable(guide):
        raise TypeError(
            f"guide must be a name, a function model -> guide or a Pyro autoguide, got "
            f"{type(guide).__name__}. Names: {', '.join(sorted(families()))}."
        )
    family = functools.partial(guide, **_checked(guide, options))
    if not point:
        return family
    if "point" in inspect.signature(guide).parameters:
        return functools.partial(family, point=tuple(point))
    return lambda model: with_points(family, model, point)


def _copied(guide: AutoGuide) -> AutoGuide:
    """A copy for this fit alone. Copying takes an autoguide's model away, from the original too."""
    model, master = guide._model, guide.master
    fresh = copy.deepcopy(guide)
    guide._model, guide.master, fresh._model = model, master, model
    return fresh


def _checked(guide: Any, options: dict[str, Any]) -> dict[str, Any]:
    parameters = list(inspect.signature(guide).parameters.values())[1:]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for option in options:
            if option not in {p.name for p in parameters}:
                raise ValueError(f"guide_options: {nearest(option, [p.name for p in parameters], 'option')}")
    if inspect.isclass(guide) and issubclass(guide, AutoGuide):
        needed = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        if missing := [name for name in needed if name not in options]:
            raise ValueError(f"{guide.__name__} needs {missing}, got none. Give guide_options={{{missing[0]!r}: ...}}.")
    return options


def _from_guides(error: TypeError) -> bool:
    """Whether a function of guides/ raised it, and not the call of one."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and str(step.tb_frame.f_globals.get("__name__", "")).startswith("guides.")


def _own_arguments(factory: Any, model: Callable[..., Any]) -> list[str]:
    """The arguments of a function that takes what the model takes, as Pyro's SVI wants its guide; [] of a factory."""
    try:
        own, wanted = (list(inspect.signature(function).parameters) for function in (factory, model))
    except (TypeError, ValueError):  # a callable without a signature
        return []
    return own if own[:1] == wanted[:1] and "model" not in own else []


def make(factory: Factory, model: Callable[..., Any]) -> Callable[..., Any]:
    """The guide of a model.

    Raises:
        TypeError: If the factory returns no function; a plain guide g is given as `lambda model: g`.
    """
    if plain := _own_arguments(factory, model):
        name = getattr(getattr(factory, "func", factory), "__name__", "g")
        raise TypeError(
            f"guide must be a factory model -> guide, {name} takes the model's own arguments ({', '.join(plain)}). "
            f"Give a plain guide function as guide=lambda model: {name}."
        )
    try:
        result = factory(model)
    except TypeError as error:
        if _from_guides(error):  # what a family here says of its options
            raise
        raise TypeError(
            f"guide must be a factory model -> guide ({error}). "
            "A plain guide function g is given as guide=lambda model: g."
        ) from None
    if not callable(result):
        raise TypeError(
            f"guide must be a factory model -> guide, its result is {type(result).__name__}. "
            "A plain guide function g is given as guide=lambda model: g."
        )
    return result
