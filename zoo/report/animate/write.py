"""`animate`: writes the page, one file that needs nothing but a browser."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zoo.core.paths import path_of, target_file

from ..files import write_whole
from .folders import chosen
from .payload import payload

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("decode.js", "scene.js", "panels.js", "main.js")
SAMPLERS = ("mh", "mala", "hmc", "nuts")
MOST_DRAWS = 5000


def html(told: dict[str, Any]) -> str:
    """The page: template, style, scripts and data in one text."""
    parts = {
        "STYLE": (PAGE / "style.css").read_text(encoding="utf-8"),
        "SCRIPT": "\n".join((PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS),
        # No text of ours may end the element that holds the data.
        "DATA": json.dumps(told, separators=(",", ":")).replace("<", "\\u003c"),
    }
    page = (PAGE / "page.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"[[{name}]]", text)
    return page


def animate(
    samplers: str | Iterable[str] = SAMPLERS,
    target: str | Iterable[str] | None = None,
    to: str | Path = "sampler.html",
    *,
    draws: int = 250,
    seed: int = 0,
) -> Path:
    """Writes a page on which samplers are watched at work: one file, without any network.

    Every chain of a grid of step sizes and lengths is run beforehand by the zoo's own kernels.

    Args:
        samplers: Any of hmc, mala, mclmc, mh, nuts, sgld.
        target: Any of banana, double_well, funnel, ring; None: all.
        to: The file to write.
        draws: Iterations of each chain; 250 make a page of 2.6 MB of all samplers.
        seed: Of all chains.

    Returns:
        The path.

    Raises:
        ValueError: For an unknown sampler or target, a wrong number of draws, and where the page can't be written.
        TypeError: For what is no path.

    Source: Ambrogioni, "Hamiltonian Monte Carlo".
    """
    wanted = chosen("samplers", samplers), chosen("targets", target)
    if isinstance(draws, bool) or not isinstance(draws, int) or not 1 <= draws <= MOST_DRAWS:
        raise ValueError(f"draws must be a whole number from 1 to {MOST_DRAWS}, got {draws!r}. Usual: 250.")
    path = path_of(to, "sampler.html")
    file = target_file(path, "sampler.html")
    write_whole(file, path, html(payload(*wanted, draws, seed)).encode())
    return path
