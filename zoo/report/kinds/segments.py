"""Five panels of one image: the image, its true classes, the predicted ones, aleatoric and epistemic uncertainty.

Aleatoric, the mean entropy of a draw's probabilities, lies along borders; epistemic, the mutual information of class
and draw, on what training never showed.

Source: Leal-Taixe, "Aleatoric and epistemic uncertainty"; Kendall & Gal 2017, figure 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from zoo.core.checks import whole
from zoo.core.posterior import Posterior
from zoo.core.problem import Data
from zoo.core.tensors import to_numpy

from ..agreement import probabilities
from ..canvas import LABEL, labels, panels
from ..inputs import common_data
from ..uncertainty import uncertainty


def draw(fits: Sequence[Posterior], on: Axes | None, *, row: int = 0, draws: int = 50) -> list[Axes]:
    """A row of five panels.

    Args:
        fits: One fit with images x (n, channels, height, width) and a class a pixel.
        on: None: there are several panels.
        row: Which image of the test set, or of the training set where there is none.
        draws: How many draws to predict by.
    """
    if len(fits) != 1:
        raise ValueError(f"segments draws one fit, got {len(fits)}. Draw one at a time.")
    (fit,), data = fits, common_data(fits)
    _check(data, row)
    x, y = (data.x, data.y) if data.x_test is None else (data.x_test, data.y_test)
    used = None if fit.weights is not None else whole("draws", draws)
    image = x[row : row + 1]
    found = uncertainty(fit, image, draws=used)
    p = probabilities(fit, fit.predict(image, draws=used))
    assert p is not None
    size = tuple(image.shape[-2:])
    names = [str(name) for name in data.info.get("classes") or range(p.shape[-1])]
    unknown = np.full(size, np.nan) if y is None else to_numpy(y[row])
    shown = panels(on, 5, (3.4, 3.2), columns=5)
    shown[0].imshow(to_numpy(image[0]).mean(0), cmap="gray")
    for axes, classes in ((shown[1], unknown), (shown[2], p.argmax(-1).reshape(size))):
        codes = axes.imshow(classes, cmap="tab10", vmin=-0.5, vmax=9.5, interpolation="nearest")
    bar = shown[2].figure.colorbar(
        codes, ax=shown[2], ticks=range(len(names)), boundaries=np.arange(len(names) + 1) - 0.5
    )
    bar.ax.set_yticklabels(names)
    for axes, values in ((shown[3], found.expected_entropy), (shown[4], found.mutual_information)):
        assert values is not None
        heat = axes.imshow(values[0], cmap="magma", vmin=0)
        axes.figure.colorbar(heat, ax=axes).set_label("nats", fontsize=LABEL)
    titles = (f"image {row}", "truth", f"{labels(fits)[0]}: prediction", "aleatoric", "epistemic")
    for axes, title in zip(shown, titles, strict=True):
        axes.set(title=title, xticks=[], yticks=[])
    return shown


def _check(data: Data, row: int) -> None:
    if data.x.dim() != 4 or (data.y is not None and data.y.dim() != 3):
        raise ValueError(
            f"segments needs images (n, channels, height, width) with a class a pixel, got x of shape "
            f"{tuple(data.x.shape)}. Try kind 'probabilities'."
        )
    count = len(data.x if data.x_test is None else data.x_test)
    if not 0 <= row < count:
        raise ValueError(f"row must be between 0 and {count - 1}, got {row!r}. Leave it out for the first image.")
