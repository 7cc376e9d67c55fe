"""Codes and images of autoencoders: what an image's code is, and which image a code stands for.

code:   z_i = E q(z | y_i, x_i) of a VAE's guide, or the encoder's output where the code is deterministic
image:  E[y | z, x], averaged over draws of the decoder's weights
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from zoo.core.handlers import Record, Values, pyro_state
from zoo.core.local import local_sites
from zoo.core.posterior import Posterior
from zoo.core.predictive import flat_draws, seeded
from zoo.core.problem import Data
from zoo.core.sites import sites

from .canvas import labels

CODE = "z"
DRAWS = 20
IMAGES = 10


class _Code(Messenger):
    """Answers the code, whether it is drawn or computed."""

    def __init__(self, z: Tensor) -> None:
        super().__init__()
        self.z = z

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] == CODE:
            msg["value"], msg["done"] = self.z, True


def has_code(fit: Posterior) -> bool:
    """Whether the model has a code of each row, drawn or computed."""
    found = sites(fit.problem)
    return CODE in found.deterministic or (CODE in found.latent and found.latent[CODE].local)


def has_prior(fit: Posterior) -> bool:
    """Whether the code is drawn (a VAE's) and not computed (an autoencoder's).

    Raises:
        ValueError: For a model without a code.
    """
    found = sites(fit.problem)
    if CODE in found.latent and found.latent[CODE].local:
        return True
    if CODE not in found.deterministic:
        known = ", ".join([*found.latent, *found.deterministic])
        raise ValueError(
            f"'{fit.problem.name}' has no code '{CODE}' of each row, but {known}. Fit 'vae', 'cvae' or 'autoencoder'."
        )
    return False


def training_rows(fit: Posterior) -> tuple[Tensor, Tensor]:
    """The training images (n, pixels), and the inputs beside them."""
    data = fit.problem.data
    if not isinstance(data, Data) or data.y is None:
        raise ValueError(f"'{fit.problem.name}' has no images y. Give zoo.Data(x, y).")
    return data.y, data.x


def held_out(fit: Posterior) -> tuple[Tensor, Tensor]:
    """The test images and the inputs beside them; the training ones where there are none."""
    data = fit.problem.data
    if isinstance(data, Data) and data.y_test is not None and data.x_test is not None:
        return data.y_test, data.x_test
    return training_rows(fit)


def places(fits: Sequence[Posterior], rows: int | Sequence[int] | None) -> list[int]:
    """Which images of the test set to show, the first ten unless said.

    Args:
        fits: Fits of the same images.
        rows: Places.

    Raises:
        ValueError: For places that there are not, and fits of different images.
    """
    for fit in fits:
        has_prior(fit)  # refuses a model without codes
    first, *others = (held_out(fit)[0] for fit in fits)
    if any(y.shape != first.shape or not torch.equal(y.cpu(), first.cpu()) for y in others):
        raise ValueError("the fits are of different images. Draw fits of the same images together.")
    wanted = list(range(min(IMAGES, len(first)))) if rows is None else [rows] if isinstance(rows, int) else list(rows)
    if not wanted or any(not isinstance(row, int) or not 0 <= row < len(first) for row in wanted):
        raise ValueError(
            f"rows must be whole numbers in 0 ... {len(first) - 1}, got {rows!r}. For example rows=(0, 4)."
        )
    return wanted


def names_of(fits: Sequence[Posterior]) -> list[str]:
    """A name a fit: its model's where those differ, else as in other pictures."""
    models = [fit.problem.name for fit in fits]
    return models if len(set(models)) == len(models) else labels(fits)


def encoded(fit: Posterior, y: Tensor | None = None, x: Tensor | None = None) -> Tensor:
    """The code of each image, (m, latent); a VAE's is the mean of q.

    Args:
        fit: A fit of a model with a code.
        y: Images (m, pixels); None: the training images.
        x: Conditions (m, c) of a conditional model; an autoencoder's images, where they are not y.
    """
    if y is None:
        y, x = training_rows(fit)
    if has_prior(fit):
        return fit.encode(y, x)["loc"][0]
    return fit.predict(y if x is None else x, draws=1)[CODE][0, 0]


def decoded(fit: Posterior, z: Tensor, x: Tensor | None = None) -> Tensor:
    """The mean image of each code, (m, pixels).

    Args:
        fit: A fit of a model with a code.
        z: Codes (m, latent).
        x: Conditions (m, c) of a conditional model.

    Raises:
        ValueError: For codes of another size, and a conditional model without x.
    """
    drawn, like = has_prior(fit), fit.problem.tensor
    z = torch.as_tensor(z).to(like)
    if x is None:
        if drawn and like[0].numel():
            raise ValueError(f"x is needed: '{fit.problem.name}' draws images given {like.shape[1]} inputs. Give both.")
        x = like.new_zeros(len(z), *like.shape[1:])  # an autoencoder's image, of which the decoder sees the code only
    _check(fit, z, x)
    arguments = fit.problem.inputs(x)
    values, _ = flat_draws(fit, DRAWS)
    inside = local_sites(fit.problem)
    images = []
    with pyro_state(validate=False), torch.no_grad(), seeded(0, like.device):
        for i in range(len(next(iter(values.values())))):
            value = {name: v[i] for name, v in values.items() if name not in inside}
            with Record() as record, Values(value), _Code(z):
                fit.problem.model(*arguments[0], **arguments[1])
            images.append(record.sites[fit.problem.names["y"]]["fn"].mean)
    return torch.stack(images).mean(0)


def _check(fit: Posterior, z: Tensor, x: Tensor) -> None:
    latent = code_size(fit)
    if z.dim() != 2 or z.shape[1] != latent or len(x) != len(z):
        raise ValueError(f"z must be ({len(x)}, {latent}), a row an image, got {tuple(z.shape)}. Give one code a row.")


def code_size(fit: Posterior) -> int:
    """Coordinates of the code."""
    if has_prior(fit):
        return sites(fit.problem).latent[CODE].shape[-1]
    one = dataclasses.replace(fit.problem, data=_first_row(fit.problem.data))
    return int(dataclasses.replace(fit, problem=one).predict(draws=1)[CODE].shape[-1])


def _first_row(data: Any) -> Data:
    return Data(data.x[:1], None if data.y is None else data.y[:1], info=data.info)


def spread(fit: Posterior) -> tuple[Tensor, Tensor]:
    """Where codes lie, mean and sd (latent,): of the prior, N(0, I), or of the training codes where there is none."""
    if has_prior(fit):
        zeros = fit.problem.tensor.new_zeros(code_size(fit))
        return zeros, zeros + 1
    z = encoded(fit)
    return z.mean(0), z.std(0)
