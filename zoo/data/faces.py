"""Grey 32 x 32 faces drawn from two known factors, smile and pose: a set of pictures without a download.

    smile, pose ~ U(-1, 1),    y = face(smile, pose) in [0, 1]^1024

Every edge is a sigmoid a pixel or so wide, so a face is a smooth function of both factors: a two-dimensional latent
can hold all there is to know. Across the faces the pixels' mean variance due to one factor is within 30 % of that due
to the other, so that neither is lost in the other's shadow.

Source: Leal-Taixe, "Variational autoencoders: traversing the latent space of faces".
"""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.core.checks import check_seed, whole
from zoo.core.problem import Data

SIDE = 32
EDGE = 0.07  # width of an edge; the picture is 2 wide
TURN = 0.1  # how far what is in front moves as the head turns
FAR = 30.0  # in widths of an edge: beyond, numbers too small for a float's full accuracy take the processor long
CHUNK = 64  # faces at once: few enough for the processor's cache
FACTORS = ("smile", "pose")


def faces(n: int = 2000, seed: int = 0, held_out: int = 500) -> Data:
    """Faces of smile and pose, each uniform on (-1, 1); x (n, 0), y (n, 1024), row after row, in [0, 1].

    The factors of each face are kept in info["factors"] = {"smile": [n numbers], "pose": [...]}, those of the test
    set in info["factors_test"]; `factors` makes tensors of them. A model never sees them.

    Args:
        n: Faces to train on.
        seed: For the factors; a face itself has no noise.
        held_out: Faces in the test set.
    """
    n, held_out = whole("n", n), whole("held_out", held_out)
    both = 2 * torch.rand(n + held_out, 2, generator=torch.Generator().manual_seed(check_seed(seed))) - 1
    y = torch.cat([face(*part.T) for part in both.split(CHUNK)])
    info = {
        "image_shape": [SIDE, SIDE],
        "factors": dict(zip(FACTORS, both[:n].T.tolist(), strict=True)),
        "factors_test": dict(zip(FACTORS, both[n:].T.tolist(), strict=True)),
        "y_name": "pixel",
        "source": f"toy.faces(n={n}, seed={seed})",
    }
    empty = torch.empty(n + held_out, 0)
    return Data(empty[:n], y[:n], empty[n:], y[n:], info=info)


def factors(data: Data, test: bool = False) -> Tensor:
    """Smile and pose of each face, (n, 2).

    Args:
        data: What `faces` made.
        test: Of the test set.
    """
    kept = data.info["factors_test" if test else "factors"]
    return torch.tensor([kept[name] for name in FACTORS]).T


def face(smile: Tensor, pose: Tensor) -> Tensor:
    """Draws one face for each smile and pose.

    A head, hair, two eyes, brows, a nose and a mouth. pose turns the head: what is in front moves by .1 pose across
    it, the farther eye narrows. smile bends the mouth, v = v0 + .3 smile (1/2 - (u / .4)^2), widens it and narrows
    the eyes.

    Args:
        smile: (n,) in [-1, 1].
        pose: (n,) in [-1, 1]; positive looks to the right.

    Returns:
        (n, 1024) in [0, 1], row after row from the top.
    """
    axis = torch.linspace(-1, 1, SIDE, dtype=smile.dtype, device=smile.device)
    v, u = torch.meshgrid(axis, axis, indexing="ij")
    smile, pose = smile[:, None, None], pose[:, None, None]
    front = u - TURN * pose
    skin = _disc(u - TURN / 3 * pose, v - 0.05, 0.72, 0.88)
    hair = skin * _inside(-0.5 - v - 0.17 * front**2)
    picture = 0.08 + 0.72 * skin - 0.5 * hair
    for side in (-1, 1):
        eye = front - 0.3 * side
        open_ = 0.13 - 0.035 * smile
        picture = picture - 0.55 * _disc(eye, v + 0.15, 0.11 - 0.02 * side * pose, open_)
        picture = picture - 0.3 * _stroke(v + 0.39 - 0.6 * eye**2, eye, 0.17)
    picture = picture - 0.2 * _disc(front - 0.03 * pose, v - 0.13, 0.06, 0.14)
    bend = 0.3 * smile * (0.5 - (front / 0.4) ** 2)
    picture = picture - 0.65 * _stroke(v - 0.5 - bend, front, 0.4 + 0.05 * smile)
    return picture.clamp(0, 1).flatten(1)


def _inside(distance: Tensor) -> Tensor:
    """1 where the distance to an edge is positive, 0 where negative, smooth between."""
    return torch.sigmoid((distance / (EDGE / 2)).clamp(-FAR, FAR))


def _disc(u: Tensor, v: Tensor, wide: float | Tensor, high: float | Tensor) -> Tensor:
    """An ellipse around (0, 0) with these half axes."""
    radius = ((u / wide) ** 2 + (v / high) ** 2 + 1e-6).sqrt()
    return _inside((1 - radius) * 0.5 * (wide + high))


def _stroke(across: Tensor, along: Tensor, half: float | Tensor) -> Tensor:
    """A soft line where `across` is 0 and `along` within +- half."""
    return torch.exp(-((across / EDGE) ** 2).clamp(max=FAR)) * _inside(half - along.abs())
