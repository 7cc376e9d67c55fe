"""Scenes: scikit-learn's 8 x 8 digits put down on noise, and the class of every pixel.

Each quarter of a 32 x 32 picture holds one digit, anywhere in it. Before noise is added a pixel whose grey is above
`INK` belongs to its digit's class, every other pixel to the background, class 0; so at the edge of a stroke, where
grey is near `INK`, noise hides which it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.core.checks import check_seed, positive, whole
from zoo.core.problem import Data

from .bundled import scikit_learn

SIDE, DIGIT = 32, 8
INK = 0.35  # of the digits' grey, 0 to 1
PARTS = ("train", "test")


def scenes(seed: int = 0, n: int = 100, digits: Sequence[int] = (0, 1, 4), noise: float = 0.1) -> Data:
    """n scenes to train on and half as many to test, with other images of the same digits.

    Args:
        seed: Of places, images and noise.
        n: Scenes to train on.
        digits: Which digits are shown; the class of digits[j] is j + 1.
        noise: sd of the noise on every pixel.

    Returns:
        `Data` with x (n, 1, 32, 32), y (n, 32, 32) and info["classes"].

    Raises:
        ValueError: As `drawn`.
    """
    train = drawn(seed, n, digits, noise)
    test = drawn(seed, max(1, n // 2), digits, noise, part="test")
    info = {"classes": ["background", *map(str, digits)], "y_name": "class", "source": f"scenes(seed={seed}, n={n})"}
    return Data(*train, *test, info=info)


def drawn(seed: int, n: int, digits: Sequence[int], noise: float = 0.1, part: str = "train") -> tuple[Tensor, Tensor]:
    """n scenes of some digits: x (n, 1, 32, 32), y (n, 32, 32).

    Args:
        seed: Of places, images and noise.
        n: How many.
        digits: Which digits are shown, each as often; the class of digits[j] is j + 1.
        noise: sd of the noise on every pixel.
        part: "train" takes three quarters of scikit-learn's images of a digit, "test" the others.

    Raises:
        ValueError: For what is no digit, no positive number, or an unknown part.
    """
    whole("n", n), check_seed(seed)
    positive("noise", noise)
    _check_digits(digits)
    if part not in PARTS:
        raise ValueError(f"part must be 'train' or 'test', got {part!r}. Leave it out for training scenes.")
    generator = torch.Generator().manual_seed((2 * seed + PARTS.index(part)) % 2**63)
    pools = _pools(digits, part)
    x, y = torch.zeros(n, SIDE, SIDE), torch.zeros(n, SIDE, SIDE, dtype=torch.int64)
    quarters = SIDE // 2
    which = torch.randint(len(digits), (n, 2, 2), generator=generator)
    offset = torch.randint(quarters - DIGIT + 1, (n, 2, 2, 2), generator=generator)
    pick = torch.rand(n, 2, 2, generator=generator)
    for scene, row, column in torch.cartesian_prod(torch.arange(n), torch.arange(2), torch.arange(2)).tolist():
        j = int(which[scene, row, column])
        image = pools[j][int(pick[scene, row, column] * len(pools[j]))]
        top, left = (offset[scene, row, column] + quarters * torch.tensor([row, column])).tolist()
        place = (scene, slice(top, top + DIGIT), slice(left, left + DIGIT))
        x[place], y[place] = image, (image > INK).long() * (j + 1)
    return (x + noise * torch.randn(x.shape, generator=generator))[:, None], y


def _check_digits(digits: Sequence[int]) -> None:
    known = isinstance(digits, Sequence) and all(isinstance(d, int) and 0 <= d <= 9 for d in digits)
    if not known or not digits or len(set(digits)) < len(digits):
        raise ValueError(f"digits must be different whole numbers from 0 to 9, got {digits!r}. Try digits=(0, 1, 4).")


def _pools(digits: Sequence[int], part: str) -> list[Tensor]:
    """The images of each digit, (count, 8, 8), grey 0 to 1."""
    bunch = scikit_learn("the digits of these scenes").load_digits()
    images, label = torch.from_numpy(bunch.images).float() / 16, torch.from_numpy(bunch.target)
    each = [images[label == digit] for digit in digits]
    return [pool[: 3 * len(pool) // 4] if part == "train" else pool[3 * len(pool) // 4 :] for pool in each]


def near_borders(y: Tensor) -> Tensor:
    """Which pixels have another class among their eight neighbours, (n, h, w) of booleans.

    Args:
        y: Classes (n, h, w).
    """
    padded = torch.nn.functional.pad(y[:, None].float(), (1, 1, 1, 1), mode="replicate")[:, 0]
    height, width = y.shape[1:]
    moved = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return (torch.stack(moved) != y.float()).any(0)
