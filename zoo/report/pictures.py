"""`plot`: one picture of one fit or several; each kind is a file in `kinds`."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.core.posterior import Posterior, check_posteriors
from zoo.core.problem import Data
from zoo.core.words import nearest

from . import kinds
from .canvas import dress, file_format, write
from .codes import has_code, has_prior
from .inputs import is_stored

Target = str | Path | Axes | None


def known() -> dict[str, str]:
    """{kind: what it shows}, read from the files' docstrings."""
    out = {}
    for folder in map(Path, kinds.__path__):
        for module in pkgutil.iter_modules([str(folder)]):
            text = (folder / f"{module.name}.py").read_text(encoding="utf-8")
            out[module.name] = (ast.get_docstring(ast.parse(text)) or "").splitlines()[0].rstrip(".")
    return out


def plot(
    posteriors: Posterior | Sequence[Posterior],
    kind: str | None = None,
    to: Target = None,
    *,
    site: str | Sequence[str] | None = None,
    output: int | None = None,
    **options: Any,
) -> Figure | Path:
    """Draws one fit or several in one picture.

    Args:
        posteriors: One fit, or several of the same data.
        kind: What to draw, see `zoo plot --help`; None: what fits the data (a band over one input, a surface
            over two, predicted against observed over more, densities where there are no inputs; of images what their
            model does with them: segments, reconstruct, completions, grid).
        to: A file to write (its ending says the format), an Axes to draw on, or None for a new figure.
        site: The sites to draw, for kinds that draw sites.
        output: Which target or class, for models with several (0).
        **options: Of the kind's own.

    Returns:
        The path, or the figure (`figure.savefig` writes it, `figure.axes` are its panels).

    Raises:
        ValueError: For an unknown kind or option, and where the kind can't serve a fit.
        TypeError: For things that are not posteriors.
    """
    panels, path = _draw(posteriors, kind, to, {"site": site, "output": output} | options)
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    return figure if path is None else path


def picture(*posteriors: Posterior, to: Target = None, output: int = 0) -> Axes | Path:
    """The picture that fits the data, as `plot` with kind None; returns the first panel's axes, or the path.

    Args:
        posteriors: Fits of the same data.
        to: As for `plot`.
        output: As for `plot`.
    """
    panels, path = _draw(posteriors, None, to, {"output": output})
    return panels[0] if path is None else path


def _draw(
    posteriors: Posterior | Sequence[Posterior], kind: str | None, to: Target, options: dict[str, Any]
) -> tuple[list[Axes], Path | None]:
    fits: list[Any] = list(posteriors) if isinstance(posteriors, (list, tuple)) else [posteriors]
    if not fits:
        raise ValueError("a picture needs at least one posterior, got none. Run one: zoo.run(problem, method).")
    check_posteriors("plot", *fits)
    path = None if to is None or isinstance(to, Axes) else Path(to)
    if path is not None:
        file_format(path)
    kind = kind or suited(fits[0])
    draw = _kind(kind).draw
    given = {name: value for name, value in options.items() if value is not None}
    _check_options(kind, draw, given)
    given_on = to.get_figure(root=True) if isinstance(to, Axes) else None
    others = [] if given_on is None else given_on.axes
    panels = list(draw(fits, to if isinstance(to, Axes) else None, **given))
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    for axes in figure.axes:
        if axes is to or axes not in others:
            dress(axes)
    if path is not None:
        write(figure, path)
    return panels, path


def suited(fit: Posterior) -> str:
    """The kind that fits the data best."""
    data = fit.problem.data
    if not isinstance(data, Data):
        return "forest"
    if not is_stored(fit) and (kind := _of_images(fit, data)):
        return kind
    width = data.x.shape[1] if data.x.dim() == 2 else -1
    if width == 2 and not is_stored(fit):
        return "surface"
    return {0: "density", 1: "band"}.get(width, "predicted")


def _of_images(fit: Posterior, data: Data) -> str | None:
    """The kind for images with a class a pixel, and for those that a model explains by a code; None for other data."""
    if data.x.dim() == 4 and data.y is not None and data.y.dim() == 3:
        return "segments"
    if data.y is None or data.y.dim() != 2 or not {"image_shape", "pixels_of"} & set(data.info) or not has_code(fit):
        return None
    if not has_prior(fit):
        return "reconstruct"
    if data.x.shape[1]:
        return "completions"
    return "reconstruct" if fit.params else "grid"  # without an encoder an image's code is not known


def _kind(name: str) -> Any:
    kinds_ = known()
    if name not in kinds_:
        described = "; ".join(f"{kind}: {what}" for kind, what in kinds_.items())
        raise ValueError(f"{nearest(str(name), kinds_, 'kind').partition(' Known:')[0]} Kinds are: {described}.")
    return importlib.import_module(f"{kinds.__name__}.{name}")


def _check_options(kind: str, draw: Any, given: dict[str, Any]) -> None:
    parameters = inspect.signature(draw).parameters.values()
    allowed = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    # Output 0 is what every kind without a choice of outputs draws.
    if given.get("output") == 0 and "output" not in allowed:
        del given["output"]
    for name in given:
        if name not in allowed:
            raise ValueError(f"kind '{kind}' takes no option '{name}'. Its options: {', '.join(allowed) or 'none'}.")
